# ./dev soak; what does the work is tests/lib/soak.py, and docs/TESTING.md describes it.
# shellcheck shell=sh

help_soak() {
    cat <<'END'
usage: ./dev soak [--hours N] [--seed N] [--leak descriptors|memory]

Runs a fleet on a private Redis while agents join, leave and are killed, and measures the agents that stay. Their memory
and their descriptors must not grow, and no target may be polled by two of them at a time.

Options:
  --hours HOURS   how long (default: 1); fractions are allowed
  --seed N        seed of what happens (default: the time)
  --leak KIND     load a leak of descriptors or of memory into the agents that stay; the run must then fail
  -h, --help      show this text

Examples:
  ./dev soak --hours 8
  ./dev soak --hours 0.034 --leak descriptors     two minutes, and must fail

Time: as long as --hours says.
END
}

cmd_soak() {
    leak=
    hours=1
    seed=$(date +%s)
    parse_options soak "$@"
    case $leak in
    '' | descriptors | memory) ;;
    *) misused soak "--leak must be descriptors or memory, not '$leak'" ;;
    esac
    require build test
    build_with_tests ''
    set -- --tenure "$BUILD_ROOT/build/tenure" --poller "$BUILD_ROOT/build/tests/e2e/fleet_poller" --hours "$hours" --seed "$seed"
    if [ -n "$leak" ]; then
        set -- "$@" --preload "$BUILD_ROOT/build/tests/e2e/soak_leak.so"
        SOAK_LEAK=$leak
        export SOAK_LEAK
    fi
    python3 tests/lib/soak.py run "$@"
}
