# ./dev package
# shellcheck shell=sh

help_package() {
    cat <<'END'
usage: ./dev package

Builds the Debian packages from the files of the git checkout, committed or not, and checks them with lintian. They are
left in build/packages.

Options:
  -h, --help   show this text

Examples:
  ./dev package && apt install ./build/packages/tenure_*.deb ./build/packages/libtenure0_*.deb

Time: two minutes on two cores.
END
}

# dpkg-buildpackage needs its directory at the top of a tree: hence a copy.
cmd_package() {
    parse_options package "$@"
    git rev-parse --is-inside-work-tree >/dev/null 2>&1 ||
        die 'package must be run in a git checkout: git lists the files that belong to it'
    require build package
    packages=$BUILD_ROOT/build/packages
    tree=$packages/tree
    rm -rf "$packages"
    mkdir -p "$tree" || die "cannot create $packages"
    git ls-files -co --exclude-standard | tar -c -T - | tar -x -C "$tree" || die "cannot copy the files to $tree"
    cp -r "$tree/packaging/debian" "$tree/debian"
    say 'building the packages'
    (cd "$tree" && dpkg-buildpackage -b -us -uc -j"$(nproc)") >"$packages/build.log" 2>&1 || {
        tail -n 40 "$packages/build.log"
        die "dpkg-buildpackage failed; the whole log is $packages/build.log"
    }
    rm -rf "$tree"
    lintian --fail-on error "$packages"/*.changes || die 'lintian found errors'
    (cd "$packages" && ls ./*.deb)
}
