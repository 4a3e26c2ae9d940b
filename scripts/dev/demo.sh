# ./dev demo; the demo itself is scripts/demo.sh.
# shellcheck shell=sh

help_demo() {
    cat <<'END'
usage: ./dev demo

Builds the program and shows its main job on SQLite: three agents share nine targets, one of them is killed, another
joins. On a terminal this is a live view with keys; 'q' ends it. Without a terminal it prints the steps and a summary.
Exits with 1 if a takeover or a rebalance did not happen in time.

Options:
  -h, --help   show this text

Examples:
  ./dev demo
  ./dev demo | cat     the same without the live view

Time: under a minute without a terminal, and a minute or two before that for the first build.
END
}

cmd_demo() {
    parse_options demo "$@"
    [ -x "$BUILD_ROOT/build/tenure" ] || say 'building for the first time: about a minute on two idle cores'
    build_program
    sh scripts/demo.sh "$BUILD_ROOT/build/tenure"
}
