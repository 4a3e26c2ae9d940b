#!/bin/sh
# Agents on three real etcd members that are killed, restarted and compacted while leases run (faults 26 and 27). The
# pollers' own log shows no overlap and no lower token, and every target is polled again in time. Members that stand
# still, and a quorum that is lost: etcd_stopped.sh.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/etcd.sh
. "$TENURE_SOURCE/tests/lib/etcd.sh"
# shellcheck source=tests/lib/etcd_fleet.sh
. "$TENURE_SOURCE/tests/lib/etcd_fleet.sh"

leader_killed() {
    cluster_fleet
    former=$(etcd_leader)
    mark begin
    member_kill "$former"
    until_true 10 led_by_other "$former"
    mark led
    until_true 10 all_polled led
    member_start "$former"
    # Once more, so that some of the agents have met a member that was away.
    former=$(etcd_leader)
    member_kill "$former"
    until_true 10 led_by_other "$former"
    mark led-again
    until_true 10 all_polled led-again
    member_start "$former"
    calm_end
}

# As an upgrade does it, in order: none is away for long, and each of them has led or not.
rolling_restart() {
    cluster_fleet
    mark begin
    for number in 1 2 3; do
        member_end "$number"
        pause_ms 300
        member_start "$number"
        mark "restarted-$number"
        until_true 10 all_polled "restarted-$number"
    done
    calm_end
}

# compact: nothing is kept but the present; where that was so already, etcd refuses.
compact() {
    run ctl compaction --physical "$(etcd_revision)"
    [ "$STATUS" -eq 0 ] || err_has 'required revision has been compacted'
}
# The history that the watches could go on from is taken away all the time: what changes is heard of nevertheless, and
# at once, not with the next renewal.
compacted() {
    TTL=20000
    RENEW=6000
    cluster_fleet
    mark begin
    for round in 1 2 3; do
        for _ in 1 2 3; do
            compact
        done
        "$TENURE" target add "new-$round"
        compact
        mark "added-$round"
        soon_true 4 polled "new-$round" "added-$round"
    done
    ctl defrag >/dev/null
    mark join
    cluster_agent d 2
    compact
    until_true 8 polled_by d join
    AGENTS="$AGENTS d"
    BOUND=6000
    calm_end
}

it 'fault 26: the leader is killed, twice: no overlap, and everything is polled on' leader_killed
it 'all members are restarted one after the other under a fleet: no overlap, no gap' rolling_restart
it 'fault 27: compaction under the watches hides no target and no instance' compacted
finish
