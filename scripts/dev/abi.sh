# ./dev abi; scripts/lib/abi.sh says what the ABI is, scripts/lint/abi compares.
# shellcheck shell=sh

help_abi() {
    cat <<'END'
usage: ./dev abi [--record]

Builds the shared library in build-abi and compares its ABI with the one that is recorded in src/libtenure.abi: the
exported functions, the layout of public structs, and the numbers of public constants. Any difference is printed and is
an error. './dev lint abi' does the same.

Options:
  --record     write src/libtenure.abi instead. Do this when a difference is intended, and commit the file
  -h, --help   show this text

Examples:
  ./dev abi
  ./dev abi --record && git diff src/libtenure.abi

Time: about a minute on two cores, then only what has changed.
END
}

cmd_abi() {
    record=no
    parse_options abi "$@"
    require build lint/abi
    . scripts/lib/abi.sh
    build_abi_library
    if [ "$record" = yes ]; then
        write_abi "$BUILD_ROOT/build-abi/libtenure.abi" || die 'abidw failed'
        cp "$BUILD_ROOT/build-abi/libtenure.abi" "$recorded_abi" || die "cannot write $recorded_abi"
        say "recorded: $recorded_abi"
    elif scripts/lint/abi; then
        say "the ABI is the one in $recorded_abi"
    else
        exit 1
    fi
}
