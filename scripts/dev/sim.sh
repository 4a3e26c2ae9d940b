# ./dev sim; the simulator is tests/sim.
# shellcheck shell=sh

help_sim() {
    cat <<'END'
usage: ./dev sim [--elections | --leases | --cron] [--seeds N] [--first N] [--jobs N] [--mutant NAME] [--verbose]
       ./dev sim [--elections | --leases | --cron] --mutants
       ./dev sim [--elections] --scenarios [--large]
       ./dev sim --scale SIZE [--real N] [--first N]

Runs whole fleets on a simulated clock, network and store, each from a seed, and checks what must always be true. A
failure prints its seed and the command that repeats it.

Options:
  --seeds N       how many seeds (default: 20000)
  --first N       the first seed (default: 1)
  --jobs N        how many processes (default: one for each core, at most 16)
  --elections     elections instead of fleets
  --leases        programs with leases of their own instead of fleets
  --cron          the jobs of crontabs instead of fleets
  --mutant NAME   with this planted bug; tests/mutants/mutants.h lists them
  --mutants       each planted bug in turn; each must be found
  --scenarios     the written scenarios instead of seeds
  --large         those too that take minutes
  --scale SIZE    one large fleet with faults, INSTANCESxTARGETS; --first is its seed
  --real N        only so many of its instances are real, the others follow the plan; no faults
  --verbose       print the history
  -h, --help      show this text

Examples:
  ./dev sim
  ./dev sim --seeds 1 --first 4711 --verbose     repeats one run, with its history
  ./dev sim --elections --mutants
  ./dev sim --scale 200x20000
  ./dev sim --scale 1000x1000000 --real 3

Time: 20000 seeds take about two minutes on two cores, a fleet of 200x20000 a minute.
END
}

cmd_sim() {
    parse_options sim "$@"
    eval "set -- $OPTIONS"
    require build sim
    build_with_tests sim
    "$BUILD_ROOT/build/tests/sim/sim" --seeds 20000 --jobs "$(nproc)" "$@"
}
