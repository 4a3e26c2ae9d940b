# ./dev build
# shellcheck shell=sh

help_build() {
    cat <<'END'
usage: ./dev build

Builds the program and the library, and leaves build/tenure and build/libtenure.so. Tests, examples and benchmarks
are built too, if cmocka and patch are installed. Missing tools and libraries are installed first.

Options:
  -h, --help   show this text

Environment:
  BUILD_ROOT   directory in which the build directories are made (default: the checkout)
  CC           compiler (default: gcc)

Examples:
  ./dev build
  CC=clang BUILD_ROOT=/tmp/clang ./dev build

Time: two minutes on two cores, then only what has changed.
END
}

cmd_build() {
    parse_options build "$@"
    build_main ''
    say "built: $BUILD_ROOT/build/tenure, $BUILD_ROOT/build/libtenure.so"
}
