#!/bin/sh
# A service that follows seed 003 by hand (SET NX EX, GET and EXPIRE, the release script; here with redis-cli alone) and
# `tenure elect` campaign for the same role: each is locked out while the other leads, and let in afterwards. Nobody
# tells us of what the service does: we ask again when the key was going to end.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

TTL=2     # in seconds, as the seed has it
SLACK=1500 # after the end of a key
SEED=titan-7f9c
KEY=leader:web

# ---- the service, word for word after the seed

seed_acquire() { redis SET "$KEY" "$SEED" NX EX "$TTL"; }
seed_renew() {
    [ "$(redis GET "$KEY")" = "$SEED" ] || return 1
    redis EXPIRE "$KEY" "$TTL"
}
seed_release() {
    redis EVAL '
        if redis.call("get", KEYS[1]) == ARGV[1] then
            return redis.call("del", KEYS[1])
        else
            return 0
        end' 1 "$KEY" "$SEED"
}
seed_is_locked_out() {
    same 'what SET NX says' "$(seed_acquire)" ''
    same 'what its release says' "$(seed_release)" 0
    if seed_renew; then fail 'it renewed what is not its own'; fi
}
# Leads until $CASE/enough is there, for a moment at a time.
seed_service() {
    while ! [ -e "$CASE/enough" ]; do
        if [ "$(seed_acquire)" = OK ]; then
            echo "begin seed" >>"$CASE/log.terms"
            sleep 0.2
            seed_renew >/dev/null
            sleep 0.2
            echo "end seed" >>"$CASE/log.terms"
            seed_release >/dev/null
            sleep 0.6
        fi
        sleep 0.1
    done
}

# ---- ours

# leader_store [OPTION]: a Redis on which elections have been held before, with this in the URL.
leader_store() {
    redis_up
    TENURE_STORE=redis://127.0.0.1:$REDIS_PORT${1:+?$1}
    export TENURE_STORE
    "$TENURE" target add begin --namespace leader --store "redis://127.0.0.1:$REDIS_PORT?fresh=1${1:+&$1}" \
        --log-level error
}
# elect NAME [OPTION...]: what it runs writes who it is and when it began to $CASE/NAME.began.
elect() {
    elect_name=$1
    shift
    # shellcheck disable=SC2016 # by its own shell
    background "$elect_name" "$TENURE" elect web --ttl "${TTL}s" --renew 600ms --name "$elect_name" "$@" -- \
        sh -c 'echo "$TENURE_INSTANCE $TENURE_TOKEN $(($(date +%s%N) / 1000000))" >"$0"; exec sleep 1000' \
        "$CASE/$elect_name.began"
    ELECT=$PID
}
leads() { [ -s "$CASE/$1.began" ]; }
instance_in() { cut -d ' ' -f 1 "$CASE/$1.began"; }
began_ms() { cut -d ' ' -f 3 "$CASE/$1.began"; }
waits() { if leads "$1"; then fail "$1 leads while another has the key"; fi; }
refused() { grep 'event=lease_acquire_failed' "$CASE/$1.err" | grep -qF "$SEED"; }
pttl() { redis PTTL "$KEY"; }

# ---- cases

the_key() {
    leader_store
    elect ours
    until_true 10 leads ours
    same 'its type' "$(redis TYPE "$KEY")" string
    same 'its value' "$(redis GET "$KEY")" "$(instance_in ours)"
    case $(instance_in ours) in
    ours-[0-9]*-????????) ;;
    *) fail "that is no instance id: $(instance_in ours)" ;;
    esac
    # Over several renewals.
    for _ in 1 2 3 4 5 6; do
        between 'what is left of it' "$(pttl)" 1 "$((TTL * 1000))"
        pause_ms 500
    done
    same 'its value later' "$(redis GET "$KEY")" "$(instance_in ours)"
    kill -TERM "$ELECT"
    ended 0 "$ELECT"
    same 'the keys that are left' "$(redis EXISTS "$KEY")" 0
}

seed_waits() {
    elect ours
    until_true 10 leads ours
    for _ in 1 2 3 4 5 6 7 8; do
        seed_is_locked_out
        pause_ms 400
    done
    same 'the leader' "$(redis GET "$KEY")" "$(instance_in ours)"
    kill -TERM "$ELECT"
    ended 0 "$ELECT"
    same 'what SET NX says' "$(seed_acquire)" OK
}

ours_waits() {
    TTL=6 # on a busy machine the seed's next renewal may be late
    same 'what SET NX says' "$(seed_acquire)" OK
    elect ours
    until_true 10 refused ours
    # For longer than its TTL, because it is renewed.
    for _ in 1 2 3 4 5 6 7 8 9; do
        pause_ms 800
        waits ours
        same 'what EXPIRE says' "$(seed_renew)" 1
    done
    left=$(pttl)
    released=$(now_ms)
    same 'what its release says' "$(seed_release)" 1
    until_true 10 leads ours
    took 'ms until we lead' "$(($(began_ms ours) - released))" 0 "$((left + SLACK))"
    same 'the leader' "$(redis GET "$KEY")" "$(instance_in ours)"
    seed_is_locked_out
}

ours_waits_for_the_dead() {
    leader_store
    same 'what SET NX says' "$(seed_acquire)" OK
    elect ours
    until_true 10 refused ours
    waits ours
    same 'what EXPIRE says' "$(seed_renew)" 1
    before=$(now_ms)
    left=$(pttl)
    until_true 10 leads ours
    took 'ms until we lead' "$(($(began_ms ours) - before))" "$((left - 5))" "$((left + SLACK))"
    seed_is_locked_out
}

both_ways() { # [OPTION]
    leader_store "$@"
    seed_waits
    same 'what its release says' "$(seed_release)" 1
    rm "$CASE/ours.began"
    ours_waits
}

another_pattern() {
    KEY=svc:web:lock
    both_ways 'leader_key=svc:{role}:lock'
    same 'keys of the usual pattern' "$(redis EXISTS leader:web)" 0
}

# Its key is that of the heartbeat of an instance "x", so an announced "x" would end the lease.
role_like_a_heartbeat() {
    leader_store
    exits 2 "$TENURE" acquire node:x --namespace leader
    err_has "the key of node:x, 'leader:node:x', could be that of an instance's heartbeat"
    exits 2 timeout 20 "$TENURE" elect node:x -- true
    exits 2 timeout 20 "$TENURE" lock node:x --namespace leader -- true
    exits 2 "$TENURE" target add ok node:x --namespace leader
    exits 0 "$TENURE" acquire node --namespace leader
    exits 0 "$TENURE" acquire node:x --namespace other --store "$TENURE_STORE?fresh=1"
    same 'keys that a heartbeat could have' "$(redis --scan --pattern 'leader:node:*')" ''
    same 'what was registered beside it' "$(redis HEXISTS tenure:leader:records Tok)" 0
}

# Two of ours and one of theirs; each leads for a moment, and again.
many_turns() {
    leader_store
    LOG=$CASE/log.terms
    : >"$LOG"
    for name in one two; do
        # shellcheck disable=SC2016 # by its own shell
        background "$name" "$TENURE" elect web --restart always --ttl "${TTL}s" --renew 600ms --name "$name" -- \
            sh -c 'echo "begin ours $TENURE_TOKEN" >>"$0"; sleep 0.3; echo "end ours" >>"$0"' "$LOG"
        eval "$name=$PID"
    done
    seed_service &
    service=$!
    echo "$service" >>"$CASE/pids"
    until_true 40 enough_turns
    : >"$CASE/enough"
    wait "$service"
    # shellcheck disable=SC2154 # set by eval
    kill -TERM "$one" "$two"
    # shellcheck disable=SC2154
    ended 0 "$one"
    ended 0 "$two"
    awk '
        $1 == "begin" { if (led != "") { print NR ": " $0 " while " led " leads"; bad = 1 } led = $2 }
        $1 == "end" { if (led != $2) { print NR ": " $0 " while " led " leads"; bad = 1 } led = "" }
        $1 == "begin" && $2 == "ours" { if ($3 <= token) { print NR ": " $0 " after " token; bad = 1 } token = $3 }
        END { exit bad }' "$LOG" || fail "$(cat "$LOG")"
}
turns() { grep -c "begin $1" "$CASE/log.terms"; }
enough_turns() { [ "$(turns seed)" -ge 3 ] && [ "$(turns ours)" -ge 5 ]; }

it 'the key of a role is leader:ROLE with the plain instance id, and its TTL' the_key
it 'a service of the seed is locked out while we lead, and we are while it does' both_ways
it 'the same with another pattern of keys in the URL' another_pattern
it 'we lead when the key of a service that died has ended, and not before' ours_waits_for_the_dead
it 'a role whose key could be that of a heartbeat is refused' role_like_a_heartbeat
it 'they take turns, and never two lead' many_turns
finish
