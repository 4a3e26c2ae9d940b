# ./dev fuzz; the targets are in tests/fuzz.
# shellcheck shell=sh

help_fuzz() {
    cat <<'END'
usage: ./dev fuzz [--seconds N] [NAME...]

Runs each parser of foreign bytes under libFuzzer with the address and undefined behaviour sanitizers. Inputs that fail
are left in build-fuzz/found, new inputs that reach other code in build-fuzz/learned. './dev test' replays the corpus.

Options:
  --seconds N   seconds for each target (default: 10)
  -h, --help    show this text

Arguments:
  NAME...       only these targets; each directory in tests/fuzz/corpus is one

Examples:
  ./dev fuzz
  ./dev fuzz --seconds 600 url route

Time: 10 s for each target, and two minutes before that for the first build.
END
}

# fuzz_names: the targets, a line each.
fuzz_names() {
    find tests/fuzz/corpus -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort
}

# fuzz_one NAME SECONDS DIR: DIR is the build directory.
fuzz_one() {
    found=$3/found/$1
    mkdir -p "$found" "$3/learned/$1"
    ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        "$3/tests/fuzz/fuzz_$1" "-max_total_time=$2" -timeout=10 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
        "-artifact_prefix=$found/" "$3/learned/$1" "tests/fuzz/corpus/$1" >"$3/$1.log" 2>&1 </dev/null
    fuzz_status=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$3/$1.log")
    if [ "$fuzz_status" -eq 0 ]; then
        say "$1: $inputs inputs, no failure"
        return 0
    fi
    say "$1: FAILED after ${inputs:-some} inputs"
    grep -E -m 3 'not true|ERROR|runtime error' "$3/$1.log"
    say "  The log is $3/$1.log, the input is in $found. Once the bug is fixed, add the input to tests/fuzz/corpus/$1"
    return 1
}

cmd_fuzz() {
    seconds=10
    parse_options fuzz "$@"
    eval "set -- $OPERANDS"
    # shellcheck disable=SC2046 # our own names have no blanks
    [ $# -gt 0 ] || set -- $(fuzz_names)
    fuzz_targets=
    for name; do
        [ -d "tests/fuzz/corpus/$name" ] ||
            misused fuzz "unknown target '$name'; the targets are: $(fuzz_names | tr '\n' ' ')"
        fuzz_targets="$fuzz_targets fuzz_$name"
    done
    require build fuzz
    CC=clang
    export CC
    build_in "$BUILD_ROOT/build-fuzz" "$fuzz_targets" -Dtests=true -Dbench=false -Dfuzz=libfuzzer \
        -Db_sanitize=address,undefined -Db_lundef=false || die 'the build failed'
    failed=0
    for name; do
        fuzz_one "$name" "$seconds" "$BUILD_ROOT/build-fuzz" || failed=$((failed + 1))
    done
    [ "$failed" -eq 0 ] || die "$failed of $# targets failed"
}
