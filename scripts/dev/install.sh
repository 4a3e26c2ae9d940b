# ./dev install
# shellcheck shell=sh

help_install() {
    cat <<'END'
usage: ./dev install [--prefix P]

Builds a release and installs the program, the libraries, the header, the pkg-config file, the manual pages, shell
completions and systemd units. Uses sudo if the prefix is not writable.

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
    build_in "$BUILD_ROOT/build-install" '' --buildtype=release "--prefix=$prefix" -Dtests=false -Dbench=false ||
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
}
