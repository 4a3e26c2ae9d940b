#!/bin/sh
# Changes of the store's registry while agents work: each is read by itself, and none of them costs a lease, a takeover or
# a handover its time.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# One that is added belongs to a fleet that has settled: there is nothing to wait for. The start of the agent, which waits
# for the settle time, is what it is compared with: a busy machine makes both longer.
added_one_by_one() {
    SETTLE=4000
    targets 2
    begin=$(boot_ms)
    agent a
    until_true 20 all_polled
    start=$(($(boot_ms) - begin))
    took 'the start' "$start" "$SETTLE" $((SETTLE + 5000))
    least=$start
    for each in 1 2 3; do
        mark "add-$each"
        begin=$(boot_ms)
        "$TENURE" target add "new-$each"
        until_true 5 polled "new-$each" "add-$each"
        late=$(($(boot_ms) - begin))
        least=$((late < least ? late : least))
    done
    between 'ms until one of them was polled' "$least" 0 $((start / 2))
    "$TENURE" target rm new-1
    until_true 5 said a '"event":"lease_released"' '"target":"new-1"'
    halt a
    sound --polls 5
}

# add_often: one target each 200 ms, for half a minute at most.
add_often() {
    for number in $(seq 1 150); do
        [ ! -e "$CASE/enough" ] || break
        "$TENURE" target add "more-$number" --paused || :
        sleep 0.2
    done
}

added_all_the_time() {
    SETTLE=1000
    targets 6
    for name in a b; do agent $name; done
    all_there 2
    until_true 20 all_polled
    until_true 20 spread 3 3 a b
    add_often >"$CASE/additions.out" 2>&1 &
    additions=$!
    echo $additions >>"$CASE/pids"
    pause_ms 600
    victim=$(instance_of a)
    mark death
    kill_host a
    until_true 10 all_taken_from "$victim"
    takeover death "$victim"
    took 'ms until the last target of a was polled by b' "$LAST" 0 $((TTL + EVERY + 1000 + STORE_LATE))
    # Who joins gets its share while it goes on.
    agent c
    until_true 20 spread 3 3 b c
    if ! kill -0 "$additions" 2>/dev/null; then fail 'the additions had ended before'; fi
    : >"$CASE/enough"
    wait "$additions" || :
    halt b c
    sound --polls 20
}

# distant: DISTANT is the URL of the store, 25 ms away in each direction.
distant() {
    case $FLEET_STORE in
    redis) port=$REDIS_PORT scheme=redis ;;
    *) port=$MANAGER_PORT scheme=http ;;
    esac
    background proxy "$PYTHON" "$TENURE_SOURCE/tests/lib/fault_proxy.py" --listen 127.0.0.1:0 --to "127.0.0.1:$port" \
        --control "unix:$CASE/proxy.control" --port-file "$CASE/proxy.port"
    until_true 10 test -s "$CASE/proxy.port"
    "$PYTHON" "$TENURE_SOURCE/tests/lib/fault_proxy.py" --tell "unix:$CASE/proxy.control" delay 25
    DISTANT=$scheme://127.0.0.1:$(cat "$CASE/proxy.port")
}

ten_thousand_at_once() {
    TTL=10000
    RENEW=2500
    EVERY=500
    targets 3
    distant
    agent a --store "$DISTANT"
    until_true 20 all_polled
    # They are paused, so that nothing but the reading of them costs anything; the last one tells that all were read.
    # shellcheck disable=SC2046
    "$TENURE" target add $(seq -f 'many-%05g' 1 10000) --paused >/dev/null
    "$TENURE" target add zz-last
    until_true 60 polled zz-last
    pause_ms "$RENEW" # whoever was late would hear of it now
    if [ "$(late_ms)" -lt $((TTL / 2)) ]; then
        for event in lease_lost lease_renew_failed worker_killed store_unreachable; do
            same "$event" "$(times_said a "\"event\":\"$event\"")" 0
        done
    fi
    same 'terms' "$(times_said a '"event":"lease_acquired"')" 4
    halt a
    sound --polls 5
}

it 'targets that are added one by one are taken at once' on_store added_one_by_one
it 'targets that are added all the time delay neither a takeover nor a handover' on_store added_all_the_time
if ! on_sqlite; then
    it 'ten thousand targets added at once cost no lease, with a store far away' on_store ten_thousand_at_once
fi
finish
