#!/bin/sh
# What commands do not get from the process that runs them: its capabilities, its connections, its passwords.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

# Somebody else's process cannot be given capabilities, so this is for root.
no_capabilities() {
    [ "$(id -u)" -eq 0 ] || return 0
    chmod 755 "$TAP_DIR"
    chmod 777 "$CASE"
    cp "$TENURE" "$CASE/program"
    for form in on off; do
        echo t >"$CASE/targets"
        printf '%s\n' 'grep -E "^Cap(Inh|Prm|Eff|Amb)" /proc/self/status >"$1.new" && mv "$1.new" "$1"' >"$CASE/look"
        rm -f "$CASE/found"
        # shellcheck disable=SC2086
        background agent setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all,+sys_admin \
            --ambient-caps -all,+sys_admin "$CASE/program" agent --store "sqlite:$CASE/$form.db" --ttl 10s \
            --pid-namespace "$form" --targets "file:$CASE/targets" --every 1s \
            --poll "exec:sh $CASE/look $CASE/found"
        until_there "$CASE/found"
        cat "$CASE/found"
        same "capabilities ($form)" "$(awk '{ print $2 }' "$CASE/found" | sort -u)" 0000000000000000
        kill -TERM "$PID"
        ended 0 "$PID"
    done
}

# until_there FILE
until_there() {
    for _ in $(seq 600); do
        [ ! -e "$1" ] || return 0
        sleep 0.1
    done
    tail -n 20 "$CASE"/*.err
    fail "$1 did not come"
}

# A process of the same user can read these, and a command is one.
no_passwords_in_proc() {
    echo t >"$CASE/targets"
    printf '%s\n' 'env >"$1.new" && mv "$1.new" "$1"' >"$CASE/look"
    export TENURE_REDIS_URL=redis://fleet:untold-password-1@127.0.0.1:1 PGPASSWORD=untold-password-2 OTHER=kept
    background agent "$TENURE" agent --ttl 10s --targets "file:$CASE/targets" --every 1s \
        --redis redis://fleet:untold-password-3@127.0.0.1:1 --poll "exec:sh $CASE/look $CASE/found"
    until_there "$CASE/found"
    workers=$(cat "/proc/$PID/task/$PID/children")
    for pid in "$PID" $workers; do
        tr '\0' '\n' <"/proc/$pid/environ" >"$CASE/environ"
        tr '\0' '\n' <"/proc/$pid/cmdline" >"$CASE/cmdline"
        ! grep -h untold-password "$CASE/environ" "$CASE/cmdline" || fail "a password is in /proc/$pid"
        grep -q '^OTHER=kept' "$CASE/environ" || fail 'the rest of the environment is gone'
        grep -q 'redis://fleet:xx*@127' "$CASE/cmdline" || fail "the URL of /proc/$pid/cmdline is not there"
    done
    grep -q '^OTHER=kept' "$CASE/found" || fail 'the environment of the command is gone'
    ! grep untold-password "$CASE/found" || fail 'the command has a password of the agent'
    kill -TERM "$PID"
    ended 0 "$PID"
}

# What is moved is still found.
moved_settings() {
    exits 0 env TENURE_STORE="sqlite:$CASE/other.db" TENURE_NAMESPACE=elsewhere "$TENURE" acquire job-1
    [ -e "$CASE/other.db" ] || fail 'TENURE_STORE was not read'
    exits 0 "$TENURE" show job-1 --namespace elsewhere --store "sqlite:$CASE/other.db"
    # shellcheck disable=SC2016
    exits 0 "$TENURE" once job -- sh -c 'echo "$TENURE_STORE"'
    out_is "$TENURE_STORE"
}

it 'a command has none of the capabilities that its agent was given' no_capabilities
it 'passwords of the environment and the command line are in no file of /proc, and in no command' no_passwords_in_proc
it 'settings of the environment are found all the same' moved_settings
finish
