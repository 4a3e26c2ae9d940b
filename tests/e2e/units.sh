#!/bin/sh
# The systemd units are understood by systemd, and leave a service little that it could do harm with.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

# unit NAME: as it will be installed, but with the program under test.
unit() {
    sed "s#@bindir@/tenure#$TENURE#" "$TENURE_SOURCE/packaging/systemd/$1.in" >"$CASE/$1"
}

# The most that an exposure may be, in tenths.
exposure=20

is_understood() {
    unit "$1"
    exits 0 systemd-analyze verify --man=no "./$1"
    [ -z "$OUT$ERR" ] || fail 'systemd has something to say'
}

is_hardened() {
    unit "$1"
    exits 0 systemd-analyze security --no-pager --offline=yes --threshold="$exposure" "./$1"
    printf '%s\n' "$OUT" | tail -n 1
    # The threshold is judged: a lower one must be refused.
    exits 1 systemd-analyze security --no-pager --offline=yes --threshold=5 "./$1"
}

units_name_the_installed_program() {
    for name in tenure-serve.service tenure-agent@.service; do
        grep -q '^ExecStart=/.*/bin/tenure ' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name"
        ! grep '@bindir@' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name has a placeholder"
        grep -q '^Type=notify' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name waits for no READY=1"
    done
}

it 'the units name the program where it is installed, and wait until it is ready' units_name_the_installed_program
if command -v systemd-analyze >/dev/null; then
    for name in tenure-serve.service tenure-agent@.service; do
        it "systemd understands $name" is_understood "$name"
        it "$name has an exposure of 2.0 or below" is_hardened "$name"
    done
fi
finish
