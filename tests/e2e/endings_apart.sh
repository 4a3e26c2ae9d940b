#!/bin/sh
# Ending the poll of one target touches nothing else: neither the polls of other targets nor a process that has got the
# number of one that is gone. Fault 42 (see docs/FAULTS.md).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# A short grace: the warden looks every 50 ms, and leases do not end because a busy machine renews them late.
apart() {
    TTL=6000
    RENEW=1000
    EVERY=1000000
    make_store
}

# stubborn_polls: "TARGET PROCESS" of each poll.
stubborn_polls() {
    for process in $(pgrep -f "sleep 10$(printf %05d "$$")"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | sed -n "s/^TENURE_TARGET=\(.*\)/\1 $process/p"
    done | sort
}
polls_are() { [ "$(stubborn_polls | cut -d' ' -f1 | sort -u | wc -l)" -eq "$1" ]; }
polls_ended() { ! stubborn_polls | grep -qxF "$1"; }

loss_of_one() {
    apart
    targets_in_file 6
    bare_agent a --targets "$FROM" --grace 100ms --timeout 1000s --pid-namespace "$1" --publish "file:$CASE/messages" \
        --poll "exec:trap '' TERM; sleep 10$(printf %05d "$$"); sleep 10$(printf %05d "$$")"
    until_true 10 polls_are 6
    stubborn_polls | grep '^t-[456] ' >"$CASE/before"
    for target in t-1 t-2 t-3; do
        forced=$(stubborn_polls | grep "^$target ") # it gets another one: the agent takes the target again
        exits 0 "$TENURE" release "$target" --force
        until_true 10 polls_ended "$forced"
    done
    pause_ms 200
    stubborn_polls | grep '^t-[456] ' >"$CASE/after" || :
    cmp "$CASE/before" "$CASE/after" || fail 'polls of other targets have ended'
    [ ! -s "$CASE/messages" ] || fail 'a poll was published'
    kill -TERM "$(warden_of a)"
    pause_ms 100
    halt a
}

# In a changed root, / is not a mount point: then unshare cannot make it private. /proc is one, and is enough.
number_reused() {
    apart
    exits 0 unshare --pid --fork --propagation unchanged --mount-proc "$PYTHON" "$TENURE_SOURCE/tests/lib/number_reused.py" "$CASE"
}

if has_namespaces; then
    it 'the loss of one target touches no poll of another, each in a PID namespace' loss_of_one auto
    it 'a process that has got the number of a poll that is gone is not signalled' number_reused
fi
it 'no namespaces: the loss of one target touches no poll of another' loss_of_one off
finish
