# A fleet of three agents on a cluster of three etcd members, each agent with another member as its first; sourced after
# etcd.sh.
# shellcheck shell=sh disable=SC2034 # BOUND is for the tests

TTL=3000
RENEW=700

# cluster_agent NAME FIRST-MEMBER
cluster_agent() { agent "$1" --timeout 30s --store "etcd://$(etcd_hosts "$2")"; }

cluster_fleet() {
    # Up to two thirds of the TTL: a poll that is under way is what a holder does until its deadline.
    LASTS="\$(( TENURE_TOKEN % 7 * $TTL / 10 + 40 ))"
    if [ "$TTL" -gt 5000 ]; then LASTS=100; fi
    etcd_cluster
    AGENTS='a b c'
    cluster_agent a 1
    cluster_agent b 2
    cluster_agent c 3
    targets 9
    until_true 20 spread 3 3 a b c
    until_true 10 all_polled
    # A holder dies or is closed: a TTL, and etcd's second and a half. A new leader: a TTL more. Its election, the
    # longest poll, the time until an agent has found a member that answers, and what a busy machine adds.
    BOUND=$((2 * TTL + 1500 + TTL * 2 / 3 + 4000))
}

# calm_end: the end of a case, and the judgement from the mark `begin` on.
calm_end() {
    mark calm
    until_true 20 all_polled calm
    mark end
    # shellcheck disable=SC2086
    halt $AGENTS
    sound --targets "$TARGETS" --bound "$BOUND" --from begin --until end "$@"
}
