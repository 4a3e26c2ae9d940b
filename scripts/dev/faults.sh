# ./dev faults; what does the work is tests/faults/faults.py, and docs/FAULTS.md describes it.
# shellcheck shell=sh

help_faults() {
    cat <<'END'
usage: ./dev faults [--minutes N | --seconds N] [--store S]... [--fleet F]... [--seed N] [--report DIR]
       ./dev faults --planted [NAME...]
       ./dev faults --hostile [--seconds N]

Runs a fleet on real servers under faults that come from a seed (processes killed and stopped, connections cut, clocks
set, servers restarted), and checks the histories. Each store has its own run and its own report.

Options:
  --minutes MINUTES   length of each run (default: 1)
  --seconds SECONDS   the same in seconds
  --store S           only this store; may be repeated. An unknown one is an error that lists the known ones
  --fleet F           plain (default), files (targets from a file, which can hang), many (1,000 polls at a time) or
                      set-uid (commands that agents may not end; as root only); may be repeated
  --seed N            seed of the faults (default: the time)
  --report DIR        where the reports go (default: build/faults)
  --planted           run planted bugs instead; each must be found
  --hostile           run clients that take all they can get of a server, beside a fleet of 20 agents (60 s)
  -h, --help          show this text

Arguments:
  NAME...             with --planted: only these bugs, or one of the groups quick and rest

Environment:
  TENURE_FAULTS_KEEP=1   keep the files of a run that failed

Examples:
  ./dev faults --minutes 10 --store redis
  ./dev faults --fleet many --fleet set-uid --store sqlite
  ./dev faults --store sqlite --seed 4711
  ./dev faults --planted quick
  ./dev faults --hostile

Time: a little over a minute for each store; --planted takes several minutes.
END
}

cmd_faults() {
    planted=no
    hostile=no
    seconds=60
    parse_options faults "$@"
    if [ "$hostile" = yes ]; then
        require build
        build_with_tests ''
        python3 tests/faults/hostile.py --tenure "$BUILD_ROOT/build/tenure" --seconds "$seconds"
        return
    fi
    [ "$planted" = yes ] || [ -z "$OPERANDS" ] || misused faults "names of bugs are for --planted"
    require build test
    build_with_tests ''
    eval "set -- $OPTIONS"
    # The names belong to --planted, so it comes last.
    for word; do
        shift
        [ "$word" = --planted ] || set -- "$@" "$word"
    done
    [ "$planted" = no ] || eval "set -- \"\$@\" --planted $OPERANDS"
    programs=$BUILD_ROOT/build/tests
    python3 tests/faults/faults.py --tenure "$BUILD_ROOT/build/tenure" --poller "$programs/e2e/fleet_poller" \
        --ledger "$programs/faults/ledger_client" --mutant "$programs/faults/tenure_mutant" \
        --report "$BUILD_ROOT/build/faults" "$@"
}
