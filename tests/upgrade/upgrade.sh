#!/bin/sh
# A rolling upgrade, and the way back: the previous version's program (OLD) and this tree's (TENURE) share a store. No two
# of them may poll a target, or lead a role, at a time, no target may be left behind, and tokens only rise. The judge reads
# only what the pollers wrote (tests/lib/fleet_check.py). FLEET_STORE chooses the store.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

NEW=$TENURE
OLD=${OLD:?the path of the program of the previous version}
[ -x "$OLD" ] || {
    echo "$OLD is missing; './dev test upgrade' builds it"
    exit 1
}
SLACK=$((3000 + STORE_LATE)) # for a busy machine
ELECT_AT_ONCE=3

# old FUNCTION... / new FUNCTION...: with the program of that version.
old() { by "$OLD" "$@"; }
new() { by "$NEW" "$@"; }
by() {
    TENURE=$1
    shift
    "$@"
    TENURE=$NEW
}

# made_by VERSION FUNCTION...: on a store whose tables, or whose `tenure serve`, are of that version.
made_by() {
    "$1" on_store :
    LOG=$CASE/polls
    shift
    "$@"
}
roles_made_by() {
    "$1" on_store_of_roles :
    shift
    "$@"
}

# ---- fleets

timing() {
    TTL=$1
    RENEW=$(($1 / 4))
}
# A poll lasts for most of the time between two, so that a second one is seen; and they are few, because several cases run
# at the same time.
fleet_timing() {
    timing "$1"
    EVERY=500
    LASTS=300
}

# joined VERSION NAME: waits until an agent that was started has polled. At its start it waits no longer for its store than
# its TTL allows; a supervisor would start it again.
joined() {
    until_true 20 polled_by_or_ended "$2"
    until polled_by "$2"; do
        too_late_at_start "$2" || fail "$2 has ended: $(cat "$CASE/$2.err")"
        "$1" agent "$2"
        until_true 20 polled_by_or_ended "$2"
    done
}
polled_by_or_ended() { polled_by "$1" || is_gone "$(warden_of "$1")"; }

# settled NAME...: nine targets are shared evenly, and each was polled by who holds it now.
settled() {
    until_true 20 even "$@"
    mark even # what has just been handed over counts only when its new holder has polled it
    until_true 10 all_polled even
}
even() {
    "$TENURE" ls --json | sed -n 's/.*"instance":"\([^"]*\)-[0-9]*-[0-9a-f]*".*/\1/p' | awk -v names="$*" '
        { held[$1]++ }
        END {
            count = split(names, list, " ")
            for (i = 1; i <= count; i++) if (held[list[i]] < int(9 / count) || held[list[i]] > int((8 + count) / count)) exit 1
        }'
}
# crash NAME: the agent or candidate and its worker are killed. The worker may end by itself, with the other.
crash() {
    crashed=$(worker_of "$1")
    kill -KILL "$(warden_of "$1")"
    kill -KILL "$crashed" 2>/dev/null || :
}

# only_by VERSION MARK: since the mark, only agents of that version have begun to poll.
only_by() {
    awk -v version="$1" -v mark="$2" '
        $3 == "mark" && $4 == mark { on = 1 }
        on && $3 == "start" && index($6, version "-") != 1 { print "polled by another: " $0; found = 1; exit }
        END { exit found }' "$LOG" || fail "since $2 there was a poll by another version"
}

# replaced FROM TO: an agent of the one version after another gives way to one of the other: two that are stopped and, in
# between, one that is killed with its worker.
replaced() {
    fleet_timing 4000
    "$1" targets 9
    for name in a b c; do "$1" agent "$1-$name"; done
    for name in a b c; do joined "$1" "$1-$name"; done
    settled "$1-a" "$1-b" "$1-c"
    mark deploy
    stop "$1-a"
    "$2" agent "$2-a"
    joined "$2" "$2-a"
    instance=$(instance_of "$1-b")
    crash "$1-b"
    "$2" agent "$2-b"
    until_true 20 all_taken_from "$instance"
    joined "$2" "$2-b"
    stop "$1-c"
    "$2" agent "$2-c"
    joined "$2" "$2-c"
    settled "$2-a" "$2-b" "$2-c"
    mark deployed
    until_true 10 all_polled deployed
    halt "$2-a" "$2-b" "$2-c"
    only_by "$2" deployed
    # The targets of the one that was killed wait for their leases to expire, once.
    sound --targets "$TARGETS" --bound "$((2 * TTL + SLACK))" --from deploy --until deployed --takeovers 9
}

# holdings PROGRAM: target, holder and token of everything, as that version reads it. planned PROGRAM: who has and who
# should have each target.
holdings() {
    "$1" ls --json | "$PYTHON" -c '
import json, sys
for line in sys.stdin:
    lease = json.loads(line)
    print(lease["target"], lease["instance"], lease["token"])' | sort
}
planned() {
    "$1" plan --json | "$PYTHON" -c '
import json, sys
for line in sys.stdin:
    move = json.loads(line)
    print(move["target"], move["from"], move["planned"])' | sort
}
at_rest() { planned "$1" | awk '$2 != $3 { moving = 1 } END { exit moving || NR != 9 }'; }

mixed() {
    fleet_timing 4000
    old targets 9
    for name in a b; do
        old agent "old-$name"
        new agent "new-$name"
    done
    for name in a b; do
        joined old "old-$name"
        joined new "new-$name"
    done
    settled old-a new-a old-b new-b
    until_true 20 at_rest "$OLD"
    until_true 20 at_rest "$NEW"
    before=$(holdings "$NEW")
    same 'what the old version sees' "$(holdings "$OLD")" "$before"
    same 'the plan of the new version' "$(planned "$NEW")" "$(planned "$OLD")"
    mark rest
    pause_ms $((3 * TTL))
    mark rested
    same 'what the old version sees' "$(holdings "$OLD")" "$before"
    same 'what the new version sees' "$(holdings "$NEW")" "$before"
    same 'changes of hands' "$(hands_since rest)" 0
    halt old-a new-a old-b new-b
    sound --targets "$TARGETS" --bound "$((2 * TTL + SLACK))" --from rest --until rested
}

# ---- roles

# hands_over VERSION: the leader is asked, by the program of that version, to hand over; another leads then.
hands_over() {
    exits 0 "$1" resign "$ROLE" --from "$INSTANCE"
    until_true 20 another_leads "$INSTANCE"
    INSTANCE=$(leader)
}
enters() {
    candidate "$1" --pid-namespace "$NAMESPACE"
    entered "$1"
}

# election FROM TO: the leader is of the one version, the candidates of the other.
election() {
    timing 6000
    "$1" first_leader first
    "$2" enters second
    "$2" enters third
    hands_over "$NEW"
    if leads second; then stop third; else stop second; fi
    successor=$(name_of "$INSTANCE")
    hands_over "$OLD"
    same 'who leads again' "$(name_of "$INSTANCE")" first
    crash first
    until_true 20 another_leads "$INSTANCE"
    INSTANCE=$(leader)
    same 'who leads after the kill' "$(name_of "$INSTANCE")" "$successor"
    "$1" enters fourth
    stop "$successor"
    until_true 20 leads fourth
    stop fourth
    never_two 5
    role_is_free || fail 'the role was not released'
}

# A worker of this version dies, and its warden releases the role with a reason that the previous version does not know.
# A candidate of the previous version hears of it all the same, and does not wait for the end of the lease.
crashed() {
    timing 90000
    # It has no second worker, which would campaign again.
    background first "$NEW" once "$ROLE" --name first --ttl "${TTL}ms" --renew "${RENEW}ms" --at-least 0s -- \
        "$POLLER" "$LOG" poll 1000000
    echo "$PID" >"$CASE/first.pid"
    until_true 20 somebody_leads
    INSTANCE=$(leader)
    old enters second
    kill -KILL "$(worker_of first)"
    until_true 30 leads second
    exits 0 "$NEW" history --namespace leader --json
    # A server of the previous version takes a reason that it does not know for `done`.
    if [ "$FLEET_STORE" = http ]; then reason='done'; else reason=crashed; fi
    out_has '"event":"lease_released"' "\"reason\":\"$reason\""
    exits 0 "$OLD" history --namespace leader --json
    out_has '"event":"lease_released"'
    stop second
    never_two 2
}

# ---- lease verbs

seen() {
    exits 0 "$1" show job --json
    same "what $2 is" "$(field "$2")" "$3"
}

# crossed ONE OTHER: what the one program has acquired, the other renews, releases and takes away.
crossed() {
    exits 0 "$1" acquire job --ttl 60s
    token=$OUT
    seen "$2" state held
    seen "$2" token "$token"
    exits 4 "$2" acquire job
    exits 0 "$2" renew job --token "$token" --ttl 1h
    exits 0 "$1" show job --json
    between 'remaining ms' "$(field remaining_ms)" 2000000 3600000
    exits 5 "$2" renew job --token "$((token + 1))"
    exits 0 "$2" release job --token "$token"
    seen "$1" state free

    exits 0 "$2" acquire job --ttl 60s
    next=$OUT
    [ "$next" -gt "$token" ] || fail "token $next came after $token"
    exits 5 "$1" renew job --token "$token"
    exits 0 "$1" release job --token "$token" # nothing to release
    seen "$1" state held
    exits 0 "$1" release job --force
    seen "$2" state forced
    exits 5 "$2" renew job --token "$next"
    exits 4 "$2" acquire job
    exits 0 "$1" release job --force --now
    exits 0 "$2" acquire job --ttl 60s
    last=$OUT
    [ "$last" -gt "$next" ] || fail "token $last came after $next"
    exits 5 "$1" renew job --token "$next"
    exits 0 "$1" release job --token "$last"
    seen "$2" state free
}
verbs() {
    crossed "$OLD" "$NEW"
    crossed "$NEW" "$OLD"
}

# ---- through tenure serve

# served SERVER AGENTS: agents of the one version at a `tenure serve` of the other, which is then restarted as the version
# of the agents, and back again, on the same SQLite file.
served() {
    fleet_timing 6000
    "$1" manager_up --log-level warn
    "$2" targets 9
    for name in a b c; do "$2" agent "$name"; done
    for name in a b c; do joined "$2" "$name"; done
    settled a b c
    mark served
    for version in "$2" "$1"; do
        manager_down TERM
        "$version" manager_start
        mark again
        until_true 20 all_polled again
        until_true 20 even a b c
    done
    mark end
    halt a b c
    sound --targets "$TARGETS" --bound "$((2 * TTL + SLACK))" --from served --until end
}

also 'a fleet of the previous version is replaced by one of this version, one agent at a time' made_by old replaced old new
also 'and back again: a fleet of this version is replaced by one of the previous version' made_by new replaced new old
also 'a mixed fleet agrees on the plan, and nothing changes hands' made_by old mixed
also 'a role goes from the previous version to this version and back' roles_made_by old election old new
also 'a role goes from this version to the previous version and back' roles_made_by new election new old
also 'a role that the warden of this version has released goes to the previous version at once' \
    roles_made_by old crashed
also 'what one version has acquired, the other renews, releases and takes away' made_by old verbs
if [ "$FLEET_STORE" = http ]; then
    also 'agents of this version at a server of the previous version, which is upgraded and put back' served old new
    also 'agents of the previous version at a server of this version, which is put back and upgraded' served new old
fi
gather
finish
