# ./dev coverage; docs/TESTING.md says how it counts.
# shellcheck shell=sh

help_coverage() {
    cat <<'END'
usage: ./dev coverage [SUITE...]

Runs the tests in a build with counters and reports which lines they reach: build-coverage/report/index.html and two
tables beside it. Fails below 95 % of lines or 90 % of branches in src/core, and below 85 % of lines in all of src.

Options:
  -h, --help   show this text

Arguments:
  SUITE...     only these suites (default: unit conformance elections servers e2e sim)

Examples:
  ./dev coverage
  ./dev coverage unit sim     enough for the core; the figure for all of src is then too low

Time: about ten minutes on two cores; 'unit sim' takes three.
END
}

# covered DIR OPTION...: what gcovr says of the counts in DIR.
covered() {
    tracefile=$1/coverage.json
    shift
    gcovr --root . --add-tracefile "$tracefile" "$@"
}

# reaches TITLE DIR OPTION...: a line with the figures; 1 if they are below the limits that the options give.
reaches() {
    coverage_of=$1
    counts=$2
    shift 2
    # The table is not needed, but needs a file: as root, gcovr would replace /dev/null.
    covered "$counts" --print-summary --output "$counts/report/last.txt" "$@" >"$counts/summary" 2>&1
    coverage_status=$?
    say "$coverage_of: $(tr '\n' ';' <"$counts/summary")"
    [ "$coverage_status" -eq 0 ]
}

# A process that is killed loses its counts, and many tests kill processes. A line with an invariant is left out, because
# no test breaks it.
cmd_coverage() {
    parse_options coverage "$@"
    eval "set -- $OPERANDS"
    require build test coverage
    out=$BUILD_ROOT/build-coverage
    if [ -d "$out" ]; then find "$out" -name '*.gcda' -delete; fi
    python3 -B scripts/test/run.py --coverage "$@"
    code=$?
    case $code in
    0) ;;
    1) say '(the counters make everything slower; ./dev test decides whether a test passes)' ;;
    3) die 'the build failed' ;;
    *) exit "$code" ;;
    esac
    gcovr --root . --filter src/ --exclude-lines-by-pattern '.*TEN_INVARIANT.*' --json "$out/coverage.json" "$out" ||
        die 'gcovr found no counts'
    mkdir -p "$out/report"
    covered "$out" --html-details "$out/report/index.html"
    covered "$out" >"$out/report/lines.txt"
    covered "$out" --branches >"$out/report/branches.txt"
    grep '^src/' "$out/report/lines.txt" | cut -c 1-75
    status=0
    reaches 'all of src' "$out" --fail-under-line 85 || status=1
    reaches src/core "$out" --filter src/core/ --fail-under-line 95 --fail-under-branch 90 || status=1
    say "$out/report/index.html shows each line"
    return "$status"
}
