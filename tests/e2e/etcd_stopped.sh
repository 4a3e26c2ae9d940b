#!/bin/sh
# Agents on three real etcd members that stand still or are too few (fault 26). A leader that was stopped for longer than
# the TTL and goes on may revoke leases that have been kept alive since (etcd before 3.4.25): nobody is let in for that.
# Killed and restarted members: etcd_cluster.sh.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/etcd.sh
. "$TENURE_SOURCE/tests/lib/etcd.sh"
# shellcheck source=tests/lib/etcd_fleet.sh
. "$TENURE_SOURCE/tests/lib/etcd_fleet.sh"

# Twice, so that most members have led before. `early`: it goes on before everybody has moved to the new term.
leader_stopped() {
    cluster_fleet
    mark begin
    for for_ms in "$@"; do
        former=$(etcd_leader)
        member_pause "$former"
        pause_ms "$for_ms"
        led_by_other "$former" || fail 'nobody else has been elected: nothing is tested'
        member_continue "$former"
        mark "continued-$for_ms"
        until_true 15 all_polled "continued-$for_ms"
        # Long enough for everybody who might have been let in.
        pause_ms "$TTL"
    done
    calm_end
}

follower_stopped() {
    cluster_fleet
    mark begin
    former=$(($(etcd_leader) % 3 + 1))
    member_pause "$former"
    pause_ms "$((2 * TTL))"
    mark meanwhile
    until_true 10 all_polled meanwhile
    member_continue "$former"
    calm_end
}

quorum_lost() {
    cluster_fleet
    leader=$(etcd_leader)
    other=$((leader % 3 + 1))
    mark begin
    mark outage-begin
    member_kill "$leader"
    member_kill "$other"
    pause_ms "$TTL"
    mark closed
    pause_ms "$((2 * TTL))"
    mark opened
    no_poll_between closed opened
    for name in a b c; do
        until_true 5 said $name '"event":"store_down"'
    done
    member_begin "$leader"
    member_begin "$other"
    until_true 20 member_is_healthy "$leader"
    until_true 20 member_is_healthy "$other"
    mark outage-end
    until_true "$(((BOUND + 999) / 1000))" all_polled outage-end
    calm_end
}

it 'fault 26: the leader is stopped for longer than the TTL and goes on, twice: no overlap, no gap' \
    leader_stopped 4500 6000
it 'a member that stands still and does not lead costs nobody a lease' follower_stopped
it 'fault 26: the quorum is lost for three TTLs and regained: closed, then everything is polled again' quorum_lost
finish
