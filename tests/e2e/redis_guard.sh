#!/bin/sh
# tenure guard on Redis: the same refusals, and what becomes of messages while the store is down, stuck, or has lost its
# data.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/guard.sh
. "$TENURE_SOURCE/tests/lib/guard.sh"

holder_is_replaced() {
    redis_store
    take a
    old=$(cat token.a)
    guard_start
    say a "$old"
    passed_is 1
    hand_over a
    until_refused a "$old"
    lines=$(grep -c . guard.out)
    say a "$(cat token.a)"
    say a "$old"
    say a $(($(cat token.a) + 1))
    say a "$(cat token.a)"
    passed_is $((lines + 2))
    grep -q "token=$old current=$(cat token.a) reason=stale" guard.err
    grep -q "current=$(cat token.a) reason=\"never granted\"" guard.err
    guard_ends
}

# down_for POLICY: a guard that has accepted, whose store then goes away.
down_for() {
    redis_store
    take a
    token=$(cat token.a)
    guard_start --cache-ttl 3s --on-expired "$1"
    say a "$token"
    passed_is 1
    redis_kill
    until_true 10 grep -q store_down guard.err
    say a "$token" # from the cache
    passed_is 2
    say a $((token + 1)) # perhaps granted, but nobody can tell
    say a $((token - 1))
    say unknown 1
    until_true 5 has_lines guard.err 4
    grep -q "token=$((token + 1)) current=$token reason=\"the store cannot confirm it\"" guard.err
    grep -q "token=$((token - 1)) current=$token reason=stale" guard.err
    grep -q 'target=unknown token=1 current=0 reason="the store cannot confirm it"' guard.err
    passed_is 2
}

down_then_refused() {
    down_for reject
    until_refused a "$token"
    lines=$(grep -c . guard.out)
    begin=$(now_ms)
    say a "$token" # refusals do not wait for the store
    say a "$token"
    until_true 5 has_refused "token=$token current=$token" 3
    took 'ms for two refusals' "$(($(now_ms) - begin))" 0 1000
    same 'messages that passed' "$(grep -c . guard.out)" "$lines"
    redis_start_again 3>&- # or it would keep the pipe open
    until_true 10 grep -q store_up guard.err
    guard_ends
}
has_refused() { [ "$(grep -c "$1" guard.err)" -ge "$2" ]; }

down_then_accepted() {
    down_for accept
    sleep 4
    say a "$token"
    passed_is 3
    say a $((token - 1))
    say a $((token + 1))
    say unknown 1
    guard_ends
    same 'messages that passed' "$(grep -c . guard.out)" 3
    grep -q 'passed=3 stale=2 ungranted=0 unconfirmed=4' guard.err
}

# A server that accepts connections and says nothing: what is cached does not wait for it.
stuck() {
    redis_store
    take a
    token=$(cat token.a)
    guard_start --cache-ttl 20s
    say a "$token"
    passed_is 1
    freeze "$REDIS"
    for i in 2 3 4; do
        begin=$(now_ms)
        say a "$token"
        passed_is "$i"
        took 'ms for a message' "$(($(now_ms) - begin))" 0 1000
        let_run 1000
    done
    say unknown 1
    until_true 15 grep -q 'target=unknown.*cannot confirm' guard.err
    kill -CONT "$REDIS"
    until_true 15 grep -q store_up guard.err
    guard_ends
}

# The server comes back with nothing. The holder lives and puts its lease back: its messages go on, under the same token.
data_is_lost() {
    redis_store
    echo a >targets
    mkfifo pipe
    background guard "$TENURE" guard --in pipe --cache-ttl 2s
    GUARD=$PID
    background agent "$TENURE" agent --targets file:targets --poll 'exec:echo 1' --every 100ms --ttl 6s --renew 1s \
        --settle 100ms --publish file:pipe
    agent=$PID
    until_true 20 has_lines guard.out 5
    before=$(sed -n '$s/.*"_version":\([0-9]*\).*/\1/p' guard.out)
    redis FLUSHALL >/dev/null
    sleep 4 # longer than the cache's TTL, shorter than the lease's
    lines=$(grep -c . guard.out)
    until_true 10 has_lines guard.out $((lines + 5))
    same 'the token' "$(sed -n '$s/.*"_version":\([0-9]*\).*/\1/p' guard.out)" "$before"
    kill -TERM "$agent"
    ended 0 "$agent"
    ended 0 "$GUARD"
    ! grep -q stale_refused guard.err
}

# Thousands of targets that nobody knows yet are a few round trips.
asked_together() {
    redis_store
    i=0
    while [ "$i" -lt 2000 ]; do
        i=$((i + 1))
        message "t-$i" 1
    done >in
    before=$(calls_of evalsha)
    exits 0 "$TENURE" guard --in in --log-level error
    out_is ''
    between 'script calls' "$(($(calls_of evalsha) - before))" 1 40
}

out_of_reach() {
    begin=$(now_ms)
    exits 3 "$TENURE" guard --store redis://127.0.0.1:1 --in /dev/null
    took 'ms until the refusal' "$(($(now_ms) - begin))" 0 7000
    out_is ''
}

it 'a holder that was replaced is refused, and so is a token that was made up' holder_is_replaced
it 'without the store the cache serves for its TTL, then everything is refused' down_then_refused
it 'without the store the policy may accept the newest token, and nothing else' down_then_accepted
it 'a store that is stuck delays nothing that is cached' stuck
it 'after a loss of data the living holder goes on passing' data_is_lost
it 'many targets are asked about together' asked_together
it 'a store that is out of reach at the start is told' out_of_reach
finish
