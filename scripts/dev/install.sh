# ./dev install
# shellcheck shell=sh

help_install() {
    cat <<'END'
usage: ./dev install [--prefix P]

Builds a release and installs the program, the libraries, the header, the pkg-config file, the Python module, the manual
pages, shell completions and systemd units. Uses sudo if the prefix is not writable. Prints what to set, so that the
shell, the compiler, the dynamic linker and Python find them there.

Options:
  --prefix P   directory to install in (default: /usr/local); relative to the checkout
  -h, --help   show this text

Examples:
  ./dev install
  ./dev install --prefix "$HOME/.local"

Time: a minute on two cores.
END
}

cmd_install() {
    prefix=/usr/local
    parse_options install "$@"
    case $prefix in
    /*) ;;
    *) prefix=$SOURCE_ROOT/$prefix ;;
    esac
    require build install
    build_in "$BUILD_ROOT/build-install" '' --buildtype=release "--prefix=$prefix" --libdir=lib -Dtests=false -Dbench=false ||
        die 'the build failed'
    above=$prefix
    until [ -d "$above" ]; do above=$(dirname "$above"); done
    if [ -w "$above" ]; then
        meson install -C "$BUILD_ROOT/build-install" --no-rebuild --quiet
    else
        can_be_root || die "$above is not writable, and there is no sudo"
        as_root meson install -C "$BUILD_ROOT/build-install" --no-rebuild --quiet
    fi || die 'the installation failed'
    say "installed in $prefix"
    say_what_to_set
}

# has_entry LIST DIRECTORY: whether it is one of the directories of the list, which are separated by colons.
has_entry() {
    case :$1: in
    *:"$2":*) return 0 ;;
    esac
    return 1
}

say_what_to_set() {
    libraries=$(find "$prefix" -name tenure.pc -exec dirname {} + | head -n 1)
    libraries=${libraries%/pkgconfig}
    settings=$(
        # shellcheck disable=SC2016 # for the reader's shell
        has_entry "$PATH" "$prefix/bin" || printf '  export PATH="%s:$PATH"\n' "$prefix/bin"
        has_entry "$(pkg-config --variable pc_path pkg-config):${PKG_CONFIG_PATH:-}" "$libraries/pkgconfig" ||
            printf '  export PKG_CONFIG_PATH="%s"\n' "$libraries/pkgconfig"
        if ! has_entry "${LD_LIBRARY_PATH:-}" "$libraries"; then
            if /sbin/ldconfig -N -X -v 2>/dev/null | grep -q "^$libraries:"; then
                printf '  ldconfig                  # as root, once, so that programs find libtenure.so.0\n'
            else
                printf '  export LD_LIBRARY_PATH="%s"\n' "$libraries"
            fi
        fi
        has_entry "${PYTHONPATH:-}" "$prefix/lib/python3/dist-packages" || [ "$prefix" = /usr ] ||
            printf '  export PYTHONPATH="%s"\n' "$prefix/lib/python3/dist-packages"
    )
    [ -z "$settings" ] || printf 'to use the library, the program and the Python module from there:\n%s\n' "$settings"
}
