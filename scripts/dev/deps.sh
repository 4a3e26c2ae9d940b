# ./dev deps
# shellcheck shell=sh

help_deps() {
    cat <<'END'
usage: ./dev deps

Installs what build, test and lint need, with apt-get. Each other command installs what it needs by itself.
scripts/needs.txt lists the needs. No daemon is left running.

Options:
  -h, --help   show this text

Examples:
  ./dev deps

Time: some minutes on a fresh machine; a second if everything is there.
END
}

cmd_deps() {
    parse_options deps "$@"
    # shellcheck disable=SC2046 # words of our own
    require build test $(sed -n 's/^\(lint\/[a-z]*\) .*/\1/p' scripts/needs.txt)
    say 'everything is there'
}
