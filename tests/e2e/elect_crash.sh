#!/bin/sh
# tenure elect: processes that are killed or stopped. The worker, the command, its shell and the warden: whichever it is,
# another leads, no two at a time, and nothing that a command has started outlives its term. Faults 1 to 3.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

QUICK=3500 # ms, of a TTL of 8000: it was not waited for. Most of it is for a busy machine
SLACK=$((2500 + STORE_LATE))

kill_worker() {
    worker=$(worker_of "$(name_of "$INSTANCE")")
    mark worker
    kill -KILL "$worker"
    handed_over worker 0 "$QUICK"
    is_gone "$worker" || fail 'the worker is still there'
}
kill_command() {
    mark command
    # shellcheck disable=SC2046 # with the detached, which has the same name
    kill -KILL $(pollers | head -n 1)
    began_again command
}
kill_shell() {
    shell=$(shell_of "$(pollers | head -n 1)")
    grep -qz '^sh$' "/proc/$shell/cmdline" || fail "process $shell is no shell"
    mark shell
    kill -KILL "$shell"
    began_again shell
}
# began_again MARK: the candidate whose command ended campaigns again, behind the others. If they are slow to notice the
# release on a busy machine, it leads again.
began_again() {
    until_true 15 began_since "$1"
    took "ms until a command began after $1" "$(ms_until_start "$1")" 0 "$QUICK"
    INSTANCE=$(leader)
}
kill_warden() {
    worker=$(worker_of "$(name_of "$INSTANCE")")
    mark warden
    kill -KILL "$(warden_of "$(name_of "$INSTANCE")")"
    soon_true 3 is_gone "$worker"
    took 'ms of the last sign of its command' "$(last_of warden "$INSTANCE")" -1000 300
    # Not before its lease has ended, which was renewed at most a renewal and a little before.
    handed_over warden "$((TTL - RENEW - 800))" "$((TTL + SLACK))"
}

# in_turn KILLED...
in_turn() {
    TTL=8000
    RENEW=2000
    SHELL_AROUND=yes
    first_leader a b c
    for killed in "$@"; do "kill_$killed"; done
    halt a b c
    never_two "$(($# + 1))"
    soon_true 3 no_pollers
    role_is_free || fail 'the role was not released'
}
shared_in_turn() {
    NAMESPACE=off
    in_turn "$@"
}
detached() {
    POLL_OPTIONS='detach stubborn'
    "$@"
}
forged() {
    POLL_OPTIONS='detach forge stubborn'
    "$@"
}
# The command itself is what the kernel ends with the worker, and that with the warden.
warden_alone() {
    NAMESPACE=off
    TTL=2400
    first_leader a b
    kill_warden
    halt a b
    never_two 2
}

# The worker is stopped: nobody in it looks at a deadline. wake: it is continued after its lease has ended; sleep: never.
worker_stopped() {
    TTL=4000
    RENEW=500
    RESTART=never # the command did not exit: it was ended
    POLL_OPTIONS=$2
    first_leader a b
    old=$INSTANCE
    name=$(name_of "$old")
    worker=$(worker_of "$name")
    mark before
    freeze "$worker"
    mark stop
    handed_over before "$((TTL - RENEW - 400))" "$((TTL + SLACK))"
    # By the deadline, which is the TTL less an eighth from the last renewal.
    took 'ms of the last sign of the old command' "$(last_of stop "$old")" 0 "$((TTL * 7 / 8 + 50))"
    # The warden waits for half a TTL before it kills a worker. A busy machine may have let that pass.
    if [ "$1" = wake ] && kill -CONT "$worker" && ! said "$name" '"event":"worker_killed"'; then
        until_true 5 said "$name" '"event":"lease_lost"' # expired, or taken, by what it sees first
        pause_ms 300
        same 'the worker' "$(worker_of "$name")" "$worker"
    else
        until_true 6 has_worker_other_than "$name" "$worker"
        until_true 5 said "$name" '"event":"worker_killed"'
    fi
    # And it leads again when it is its turn.
    mark again
    stop "$(name_of "$INSTANCE")"
    until_true 5 leads "$name"
    takeover again "$INSTANCE"
    took 'ms until it led again' "$FIRST" 0 "$SLACK"
    halt "$name"
    never_two 3
    soon_true 3 no_pollers
}
stopped_shared() {
    NAMESPACE=off
    worker_stopped "$@"
}

# The worker is stopped, and the warden ends the command, which exits with 0. The worker goes on when the lease is still
# there and can be renewed: all the same, the command was ended because of it.
polite() {
    # shellcheck disable=SC2016 # a command for the shell of the candidate
    command='trap "echo ended >>\"$0\"; exit 0" TERM; echo "$TENURE_TOKEN" >>"$0"; while :; do sleep 0.05; done'
    for verb in 'elect e --restart never' 'elect f --restart on-failure' 'once o --wait 20s'; do
        name=${verb#* }
        name=${name%% *}
        # shellcheck disable=SC2086
        background "$name" "$TENURE" $verb --name "$name" --ttl 4s --renew 500ms --grace 2s --log-format json -- \
            sh -c "$command" "$CASE/$name.terms"
        echo "$PID" >"$CASE/$name.pid"
    done
    for name in e f o; do until_true 20 test -s "$CASE/$name.terms"; done
    for name in e f o; do kill -STOP "$(worker_of "$name")"; done
    stopped_ms=$(boot_ms)
    for name in e f o; do
        until_true 20 ended_or_killed "$CASE/$name.terms"
        kill -CONT "$(worker_of "$name")" 2>/dev/null || :
    done
    ended 5 "$(warden_of o)"
    for name in e f; do until_true 20 again "$CASE/$name.terms"; done
    for name in e f o; do
        # On a very busy machine the worker is woken so late that the warden has killed it.
        if said "$name" '"event":"worker_killed"'; then continue; fi
        said "$name" '"event":"command_ending"' '"ends_in_ms":' || fail "$name does not say why it was ended"
        said "$name" '"event":"command_ended"' || fail "$name does not say how it has ended"
    done
    still_candidates e f
    halt e f
}
# The worker stays stopped, and is killed when it is past its deadline: the lease was lost.
stays_stopped() {
    background o "$TENURE" once o -v --wait 20s --name o --ttl 2s --renew 300ms --log-format json -- sleep 1000
    echo "$PID" >"$CASE/o.pid"
    until_true 20 said o '"event":"lease_acquired"'
    kill -STOP "$(worker_of o)"
    ended 5 "$(warden_of o)"
}

# On a very busy machine it is killed before it can say so: by then its lease has ended.
ended_or_killed() { grep -q ended "$1" || [ "$(boot_ms)" -ge $((stopped_ms + 5000)) ]; }
again() { [ "$(grep -c '^[0-9]' "$1")" -ge 2 ]; }

if has_namespaces; then
    also 'kill -9 of the worker, the command, its shell and the warden in turn: another leads, never two' \
        on_store_of_roles detached in_turn worker command shell worker warden
fi
also 'the same without a PID namespace: nothing that was double-forked and detached outlives its term' \
    on_store_of_roles detached shared_in_turn worker command shell worker
also 'nor does what has chosen a mark of its own' on_store_of_roles forged shared_in_turn command shell
also 'the death of the warden ends its worker and the command, also without a PID namespace' \
    on_store_of_roles warden_alone
also 'where PID namespaces are not permitted, kills of the worker and of the command hand over as well' \
    on_store_of_roles without_namespaces detached in_turn worker shell
also 'a worker stopped for longer than the TTL: its command is ended by the deadline; woken, it campaigns again' \
    on_store_of_roles worker_stopped wake 'stubborn detach'
also 'the same without a PID namespace' on_store_of_roles stopped_shared wake 'stubborn detach'
also 'the same for what has chosen a mark of its own' on_store_of_roles stopped_shared wake 'stubborn detach forge'
also 'a worker that stays stopped is killed, and another takes its place' on_store_of_roles worker_stopped sleep ''
also 'a command that exits with 0 when the warden ends it was ended because of the lease' on_store_of_roles polite
also 'once whose worker stays stopped is 5' on_store_of_roles stays_stopped
gather
finish
