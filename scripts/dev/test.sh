# ./dev test; what does the work is scripts/test/run.py, and docs/TESTING.md describes the tests.
# shellcheck shell=sh

help_test() {
    cat <<'END'
usage: ./dev test [--all] [--load]
       ./dev test [--repeat N] [--load] [SUITE or TEST...]

Without names, builds and runs all tests with gcc, then most of them again with sanitizers and without optional
libraries, and compiles everything with clang. With names, runs only these suites and tests, in the gcc build. A line is
printed as each test program ends; FAIL lines name the file that has the output. The last line is
"N passed, N failed". It counts test cases, or runs of test programs with --repeat. Exits with 0 only if nothing failed.
What is missing is installed first, real servers too. Ctrl-C stops everything.

Options:
  --all        add the slow combinations: every suite in every build, long tests, deep searches of the models
  --repeat N   run the programs N times (default suites: unit conformance), and say for each how many runs failed
  --load       compile in build/load beside the tests, for as long as they run, to find tests that depend on timing
  -h, --help   show this text

Arguments:
  NAME...      suites (unit conformance fuzz elections servers e2e sim faults model long ...) or tests

Examples:
  ./dev test
  ./dev test unit
  ./dev test --repeat 20 --load unit-core-holding fleet_stories

Time: about 10 minutes on two cores; --all takes an hour or more. 'unit' takes half a minute after the build.
END
}

# test_needs ALL NAME...: unit tests alone need no servers. A browser, and npm for its driver (in Debian five hundred
# packages), take minutes to install: only --all does that.
test_needs() {
    all_tests=$1
    shift
    only_unit "$@" && say build unit && return
    if [ "$all_tests" = yes ] || { command -v chromium && command -v npm; } >/dev/null; then
        say build test web
    else
        say build test
    fi
}

# only_unit NAME...: whether there are names, and each is of a unit test.
only_unit() {
    [ "$#" -gt 0 ] || return
    for name; do
        case $name in
        unit | unit-*) ;;
        *) return 1 ;;
        esac
    done
}

cmd_test() {
    all=no
    repeat=
    parse_options test "$@"
    if [ "$all" = yes ] && [ -n "$repeat$OPERANDS" ]; then
        misused test '--all cannot be combined with --repeat or with names'
    fi
    [ "$repeat" != 0 ] || misused test '--repeat must be at least 1'
    needed=$(eval "test_needs $all $OPERANDS")
    case $needed in
    *web) ;;
    *) [ -n "$repeat$OPERANDS" ] || say 'web: left out, because chromium or npm is missing; ./dev test --all installs them' ;;
    esac
    # Also if nothing could be installed, the last line says how many passed.
    # shellcheck disable=SC2086 # words of our own
    (require $needed) || {
        say '0 passed, 1 failed'
        exit 1
    }
    eval "set -- $OPTIONS -- $OPERANDS"
    exec python3 -B scripts/test/run.py "$@"
}
