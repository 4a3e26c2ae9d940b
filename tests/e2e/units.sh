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

# with_drop_in UNIT DROP-IN: the unit and what an administrator copies beside it, both as they will be installed. The paths
# of credentials are not looked at here; systemd as process 1 would.
with_drop_in() {
    unit "$1"
    mkdir "$CASE/$1.d"
    sed "s#@bindir@/tenure#$TENURE#" "$TENURE_SOURCE/packaging/systemd/$2.in" >"$CASE/$1.d/$2"
    exits 0 systemd-analyze verify --man=no "./$1"
    [ -z "$OUT$ERR" ] || fail 'systemd has something to say'
    exits 0 systemd-analyze security --no-pager --offline=yes --threshold="$exposure" "./$1"
}

# option FILE NAME: what a line NAME= says last.
option() { sed -n "s/^$2=//p" "$1" | tail -n 1; }

# The command line of the drop-in, with a directory of ours in place of systemd's.
serve_starts_with_credentials() {
    [ ! -x /usr/bin/systemd-analyze ] || with_drop_in tenure-serve.service serve-credentials.conf
    mkdir "$CASE/credentials"
    for file in auth tls.crt tls.key; do
        grep -q "^LoadCredential=$file:/" "$TENURE_SOURCE/packaging/systemd/serve-credentials.conf.in" || fail "$file"
    done
    printf 'boss admin * * %s\n' "$(printf secret | sha256sum | cut -d ' ' -f 1)" >"$CASE/credentials/auth"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -keyout "$CASE/credentials/tls.key" -out "$CASE/credentials/tls.crt" 2>/dev/null
    chmod 400 "$CASE/credentials"/*
    command=$(option "$TENURE_SOURCE/packaging/systemd/serve-credentials.conf.in" ExecStart |
        sed "s#@bindir@/tenure#$TENURE#; s#%d#$CASE/credentials#g; s#\$TENURE_SERVE_OPTIONS#--listen 127.0.0.1:0#")
    # shellcheck disable=SC2086
    background serve $command
    until_true 20 grep -q . "$CASE/serve.out"
    port=$(sed 's/.*://' "$CASE/serve.out")
    for pair in secret:200 wrong:401; do
        code=$(curl -s -o "$CASE/answer" -w '%{http_code}' --cacert "$CASE/credentials/tls.crt" \
            -H "Authorization: Bearer ${pair%:*}" "https://localhost:$port/api/v1/poll")
        same "the answer to ${pair%:*}" "$code" "${pair#*:}"
    done
    ! grep -q key_exposed "$CASE/serve.err" || fail 'the key is exposed'
    kill -TERM "$PID"
    ended 0 "$PID"
}

agent_starts_with_credentials() {
    [ ! -x /usr/bin/systemd-analyze ] || with_drop_in tenure-agent@.service agent-credentials.conf
    file=$TENURE_SOURCE/packaging/systemd/agent-credentials.conf.in
    grep -q '^LoadCredential=token:/' "$file" || fail 'token'
    mkdir "$CASE/tenure-agent@poll.service"
    echo secret >"$CASE/tenure-agent@poll.service/token"
    store=$(option "$file" Environment | sed "s#^TENURE_STORE=##; s#%d#$CASE/tenure-agent@poll.service#; s#leases.example:7480#127.0.0.1:1#")
    exits 3 env TENURE_STORE="$store" "$TENURE" ls
    err_has '127.0.0.1:1'
}

units_name_the_installed_program() {
    for name in tenure-serve.service tenure-agent@.service tenure-cron.service tenure-elect@.service; do
        grep -q '^ExecStart=/.*/bin/tenure ' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name"
        ! grep '@bindir@' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name has a placeholder"
        grep -q '^Type=notify' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name waits for no READY=1"
        grep -q '^StartLimitIntervalSec=0' "$(dirname "$TENURE")/packaging/systemd/$name" || fail "$name is given up"
    done
}

it 'the units name the program where it is installed, and wait until it is ready' units_name_the_installed_program
it 'the drop-in for the credentials of serve starts it with TLS and auth' serve_starts_with_credentials
it 'the drop-in for the credentials of an agent is a store with a token' agent_starts_with_credentials
if command -v systemd-analyze >/dev/null; then
    for name in tenure-serve.service tenure-agent@.service tenure-cron.service tenure-elect@.service; do
        it "systemd understands $name" is_understood "$name"
        it "$name has an exposure of 2.0 or below" is_hardened "$name"
    done
fi
finish
