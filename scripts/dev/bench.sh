# ./dev bench; the benchmarks are in bench, and docs/BENCHMARKS.md has results.
# shellcheck shell=sh

help_bench() {
    cat <<'END'
usage: ./dev bench [--json FILE] [--ids N] [NAME]

Measures a release build. Each row has our figure, the ceiling or the peer that was measured in the same run, and the
ratio. The rows are also written to a file as JSON.

Options:
  --json FILE   the file (default: bench/results.json)
  --ids N       ids that each round of the rows `growth` uses (default: 150000)
  -h, --help    show this text

Arguments:
  NAME          only the rows whose names begin with NAME; an unknown NAME is an error that lists them
  scale[/CASE]  whole fleets, which are not among the other rows; CASE: a store, STORE/INSTANCESxTARGETS,
                or STORE/growth, from which bench/plot.py draws docs/scale.svg
  held[/CASE]   what 1,000 to 1,000,000 leases cost at rest; CASE: a store, or STORE/COUNT. bench/plot_held.py draws
                docs/held.svg from it

Examples:
  ./dev bench
  ./dev bench redis
  ./dev bench scale/redis/50x10000

Time: a minute for most names; all of them take about half an hour.
END
}

# What elections and locks are measured beside. A peer that cannot be installed is left out, and its rows say so.
install_peers() {
    (require peers) || say 'some of the peers are missing; their rows are left out'
    command -v npm >/dev/null || return 0
    peers=$BUILD_ROOT/build-release/bench/peers
    if [ -d "$peers/node_modules" ] && cmp -s bench/peers/package-lock.json "$peers/package-lock.json"; then
        return 0
    fi
    rm -rf "$peers"
    mkdir -p "$peers" && cp bench/peers/package.json bench/peers/package-lock.json "$peers"
    (cd "$peers" && npm ci --ignore-scripts --no-audit --no-fund) >/dev/null 2>&1 || {
        rm -rf "$peers"
        say 'npm could not install what bench/peers/package.json lists'
    }
}

cmd_bench() {
    json=bench/results.json
    ids=150000
    parse_options bench "$@"
    eval "set -- $OPERANDS"
    require build bench
    build_in "$BUILD_ROOT/build-release" '' --buildtype=release -Dtests=false || die 'the build failed'
    for rows in elections peers; do
        case $rows in
        "${1:-}"*) install_peers ;;
        esac
    done
    "$BUILD_ROOT/build-release/bench/bench" --json "$json" --ids "$ids" "$@"
}
