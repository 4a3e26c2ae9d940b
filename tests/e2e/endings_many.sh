#!/bin/sh
# A thousand polls at once: whoever ends them, they have ended when the store lets others in. Faults 3, 10 and 37 with many
# polls (see docs/FAULTS.md).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

WATCH=$TENURE_SOURCE/tests/lib/polls_watch.py
MANY=${ENDINGS_MANY:-1000}

# crowd COUNT OPTION...: an agent with so many endless polls.
crowd() {
    fleet_count=$1
    shift
    TTL=3000
    RENEW=1000
    EVERY=1000 # a poll that a busy machine has ended is started again
    make_store
    chmod 777 "$CASE" && chmod 666 "$CASE"/store.db*
    targets_in_file "$fleet_count"
    bare_agent a --targets "$FROM" --timeout 1000s --poll 'exec:exec sleep 1000' "$@"
    until_true 10 worker_works
}
worker_works() { [ -n "$(worker_of a)" ]; }

# ended_in_time WHAT
ended_in_time() {
    # shellcheck disable=SC2086
    exits 0 "$PYTHON" "$WATCH" "$(worker_of a)" "$MANY" "$CASE/store.db" "$1"
}

worker_stopped() {
    crowd "$MANY" --pid-namespace "$1"
    ended_in_time stop
}

# The worker ends them itself.
store_away() {
    crowd "$MANY" --pid-namespace off
    ended_in_time lock
    if said a '"event":"worker_killed"'; then fail 'the warden had to kill the worker'; fi
    until_true 10 all_told
}

# One whose lease was renewed after all, because the store came back when the others had ended, has failed.
all_told() { [ "$(grep -c -e '"event":"poll_discarded"' -e '"event":"poll_failed"' "$CASE/a.err")" -ge "$MANY" ]; }

asked_to_stop() {
    crowd "$MANY" --pid-namespace off
    worker=$(worker_of a)
    until_true 60 has_children "$worker" "$MANY"
    children=$(cat "/proc/$worker/task"/*/children)
    kill -TERM "$(warden_of a)"
    pause_ms 100
    stop a
    if said a '"event":"worker_killed"'; then fail 'the warden had to kill the worker'; fi
    for child in $children; do is_sleep "$child" && fail "process $child is still there"; done
    [ "$(held_by a)" -eq 0 ] || fail 'a lease was not released'
}
has_children() { [ "$(cat "/proc/$1/task"/*/children | wc -w)" -ge "$2" ]; }
is_sleep() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = sleep ]; }

if has_namespaces; then
    it 'fault 3: a thousand polls of a stopped worker, each in a PID namespace, end before the store lets others in' \
        worker_stopped auto
fi
it 'fault 3, no namespaces: a thousand polls of a stopped worker end before the store lets others in' worker_stopped off
it 'fault 10: a worker that loses its store ends a thousand polls before the store lets others in' store_away
it 'fault 37: a worker that is asked to stop ends a thousand polls and releases their targets' asked_to_stop
finish
