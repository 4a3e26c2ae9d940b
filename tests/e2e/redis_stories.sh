#!/bin/sh
# A fleet on a real Redis: what only Redis has (a first use, forgotten scripts, a server that becomes a replica), and
# what the stories that run on any store leave out (fleet_stories.sh with FLEET_STORE=redis): ten instances, long polls.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

SLACK=1500

# SC-003. The loads of 33 targets on ten instances are 3 or 4.
ten_instances() {
    TTL=10000
    RENEW=2500
    EVERY=700
    NAMES='a b c d e f g h i j'
    redis_store
    targets 33
    for name in $NAMES; do agent "$name"; done
    # shellcheck disable=SC2086
    until_true 20 spread 3 4 $NAMES
    until_true 10 all_polled
    mark settled
    tokens=$(all_tokens)
    pause_ms 2500
    mark end
    # shellcheck disable=SC2086
    spread 3 4 $NAMES || fail 'the shares did not stay even'
    same 'the tokens' "$(all_tokens)" "$tokens"
    same 'instances' "$("$TENURE" nodes --json | wc -l)" 10
    same 'heartbeats in Redis' "$(redis --scan --pattern 'poll:node:*' | wc -l)" 10
    same 'leases in Redis' "$(redis --scan --pattern 'poll:lease:*' | wc -l)" 33
    # shellcheck disable=SC2086
    halt $NAMES
    sound --targets "$TARGETS" --bound "$((EVERY + SLACK))" --from settled --until end --polls 100
    same 'instances that stay' "$(redis --scan --pattern 'poll:node:*' | wc -l)" 0
    same 'leases that stay' "$(redis --scan --pattern 'poll:lease:*' | wc -l)" 0
    same 'calls of KEYS' "$(calls_of keys)" 0
}
all_tokens() { "$TENURE" ls --json | sed 's/.*"token":\([0-9]*\).*/\1/' | tr '\n' ' '; }

# ---- a Redis that knows nothing

first_use() {
    redis_up
    TENURE_STORE=redis://127.0.0.1:$REDIS_PORT
    TENURE_TTL=2s
    export TENURE_STORE TENURE_TTL
    begin=$(boot_ms)
    exits 4 "$TENURE" acquire job
    out_is ''
    err_has 'cannot acquire job for another 2.0s: the store is recovering'
    pause_ms 1000
    exits 4 "$TENURE" acquire other-job
    err_has 'cannot acquire other-job for another'
    left=$(printf '%s\n' "$ERR" | sed -n 's/.*for another \([0-9]*\)ms.*/\1/p')
    between 'ms left' "${left:-9999}" 1 1000
    exits 0 "$TENURE" acquire job --wait 5s
    took 'ms of waiting in all' "$(($(boot_ms) - begin))" 2000 4000
    # Once: from now on it is as any other.
    exits 0 "$TENURE" acquire other-job
    exits 4 "$TENURE" acquire job
    err_has 'job is held by'
    # Each namespace has its own epoch; who says that it is new need not wait.
    exits 4 "$TENURE" acquire job --namespace jobs
    exits 0 "$TENURE" acquire job --namespace scenes --store "$TENURE_STORE?fresh=1"
    exits 0 "$TENURE" acquire other-job --namespace scenes
}

# ---- changes are heard of at once

# Whoever joins while another is still on its way to hear of it (here slowly, through the proxy) is heard of all the same,
# and not with the next heartbeat.
join_heard() {
    TTL=12000
    RENEW=3000
    redis_store
    proxy_start p
    proxy_tell p delay 25
    echo t-1 >targets
    for after in 40 80 120 160 200 240 280; do
        slow="a$after"
        bare_agent "$slow" --namespace "n$after" --targets "file:$CASE/targets" --poll exec:true --store "$(through p)"
        tries=0
        until [ -n "$(redis --scan --pattern "n$after:node:*")" ]; do
            tries=$((tries + 1))
            [ "$tries" -lt 5000 ] || fail "$slow does not join"
            sleep 0.01
        done
        pause_ms "$after"
        bare_agent "b$after" --namespace "n$after" --targets "file:$CASE/targets" --poll exec:true
        echo "b$after joins $after ms after $slow, which has to hear of it"
        soon_true 1 said "$slow" '"event":"instance_joined"' "\"other\":\"b$after-"
        halt "$slow" "b$after"
    done
}

# ---- a Redis that others administer

# Fault 11. Nobody is at the address of its master, so that it keeps its data.
made_a_replica() {
    TTL=3000
    RENEW=700
    redis_store
    targets 6
    for name in a b; do agent $name; done
    until_true 10 spread 3 3 a b
    mark even # the first poll of what has just been handed over would count as a change of hands
    until_true 5 all_polled even
    # For a moment: an epoch begins, and the living go on.
    before=$(epoch)
    mark moment
    redis REPLICAOF 127.0.0.1 1
    pause_ms 400
    redis REPLICAOF NO ONE
    until_true 5 epoch_other_than "$before"
    pause_ms "$TTL"
    mark moment-end
    same 'hands' "$(hands_since moment)" 0
    # For three TTLs: closed, and polled again by itself.
    before=$(epoch)
    mark outage-begin
    redis REPLICAOF 127.0.0.1 1
    exits 3 "$TENURE" acquire job
    err_has "127.0.0.1:$REDIS_PORT" replica
    pause_ms "$TTL"
    mark closed
    pause_ms "$((2 * TTL))"
    redis REPLICAOF NO ONE
    mark outage-end
    until_true 10 all_polled outage-end
    until_true 5 epoch_other_than "$before"
    until_true 10 spread 3 3 a b
    mark end
    no_poll_between closed outage-end
    for name in a b; do
        until_true 5 said $name '"event":"store_down"'
        until_true 5 said $name '"event":"store_up"'
    done
    halt a b
    sound --targets "$TARGETS" --bound "$((TTL + SLACK))" --from moment --until end
}

# A start lists what is held or registered, and does not go through what ever was.
old_ids() {
    TTL=10000
    RENEW=2500
    redis_store
    targets 3
    redis EVAL "for i = 1, 50000 do
        redis.call('ZADD', 'tenure:poll:ids', 0, 'Lold-' .. i)
        redis.call('HSET', 'tenure:poll:records', 'Lold-' .. i, '0000000000000001-0000000000001\\0001\\0001 ttl=1000 at=1')
    end" 0
    redis CONFIG RESETSTAT
    agent a
    until_true 60 all_polled
    halt a
    # Two for each listing: a look whether the index is there, and a page.
    between 'walks through all ids' "$(calls_of zrangebylex)" 0 10
}

it 'SC-003: ten instances share 33 targets evenly, and nothing moves any more' ten_instances
it 'the first use of a Redis waits for one TTL, once, and says so; fresh=1 skips it' first_use
it 'a join is heard of at once, also by an instance that has just begun' join_heard
it '50,000 ids that were leased once do not matter at the start of an agent' old_ids
it 'fault 11: a Redis that becomes a replica closes the fleet, which goes on when it is a master again' made_a_replica
finish
