# ./dev sim; the simulator is tests/sim.
# shellcheck shell=sh

help_sim() {
    cat <<'END'
usage: ./dev sim [--elections] [--seeds N] [--first N] [--jobs N] [--mutant NAME] [--verbose]
       ./dev sim [--elections] --mutants | --scenarios

Runs whole fleets on a simulated clock, network and store, each from a seed, and checks what must always be true. A
failure prints its seed and the command that repeats it.

Options:
  --seeds N       how many seeds (default: 20000)
  --first N       the first seed (default: 1)
  --jobs N        how many processes (default: one for each core, at most 16)
  --elections     elections instead of fleets
  --mutant NAME   with this planted bug; tests/mutants/mutants.h lists them
  --mutants       each planted bug in turn; each must be found
  --scenarios     the written scenarios instead of seeds
  --verbose       print the history
  -h, --help      show this text

Examples:
  ./dev sim
  ./dev sim --seeds 1 --first 4711 --verbose     repeats one run, with its history
  ./dev sim --elections --mutants

Time: 20000 seeds take about two minutes on two cores.
END
}

cmd_sim() {
    parse_options sim "$@"
    eval "set -- $OPTIONS"
    require build sim
    build_with_tests sim
    "$BUILD_ROOT/build/tests/sim/sim" --seeds 20000 --jobs "$(nproc)" "$@"
}
