# ./dev lint; each check is a file in scripts/lint.
# shellcheck shell=sh

help_lint() {
    cat <<'END'
usage: ./dev lint [NAME...]

Checks the sources. Each check prints what it found, then "ok" or "WRONG" and its name.

Options:
  -h, --help   show this text

Arguments:
  NAME...      only these checks:
                 abi        the library's ABI is the one in src/libtenure.abi (builds the library with debug information)
                 commands   ./dev itself: each command has its help, and building again keeps what is built
                 core       src/core and src/rules reach no clock, no I/O and no threads through its includes
                 cppcheck   static analysis
                 files      each file starts with a comment and is not too long; no path of one machine
                 layers     includes point down the layers, and no store includes another
                 layout     clang-format
                 names      the header, the lists of exported names and the library agree (builds the library)
                 needs      each command that a script starts is on a bare Debian 12 or in scripts/needs.txt
                 prefixes   no type is defined twice, and the prefix of a function shows its layer (builds the program)
                 requirements  docs/REQUIREMENTS.md names files, functions and tests that exist
                 shell      shellcheck
                 version    the version is the same in the header, the build, the packages and the bindings
                 words      what users read has no phrase of scripts/words.txt; prose in Markdown fits 120 columns

Examples:
  ./dev lint
  ./dev lint layers core

Time: about two minutes; most checks take less than a second, cppcheck and the build for abi most of the time.
END
}

# checks: their names, a line each.
checks() {
    find scripts/lint -type f -printf '%f\n' | sort
}

# run_check NAME
run_check() {
    require "lint/$1"
    case $1 in
    names | prefixes) build_program ;;
    abi)
        . scripts/lib/abi.sh
        build_abi_library
        ;;
    esac
    "scripts/lint/$1"
}

cmd_lint() {
    parse_options lint "$@"
    eval "set -- $OPERANDS"
    # shellcheck disable=SC2046 # our own names have no blanks
    [ $# -gt 0 ] || set -- $(checks)
    for check; do
        case $check in
        '' | *[!a-z]*) known=no ;;
        *) known=$(test -f "scripts/lint/$check" && say yes) ;;
        esac
        [ "$known" = yes ] || misused lint "unknown check '$check'; the checks are: $(checks | tr '\n' ' ')"
    done
    wrong=0
    for check; do
        if (run_check "$check"); then
            say "ok    $check"
        else
            say "WRONG $check"
            wrong=$((wrong + 1))
        fi
    done
    [ "$wrong" -eq 0 ] || die "$wrong of $# checks found something"
}
