#!/bin/sh
# A Redis that was away, refuses us, or is not fit for leases. What the user reads names the server and what to do, comes
# in bounded time, and never shows a password. reach_store.sh has what all servers share.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/reach.sh
. "$TENURE_SOURCE/tests/lib/reach.sh"

# Nobody tells that it is back: it is looked for, the less often the longer it is away, but often enough.
found_again() {
    TTL=1200
    RENEW=300
    redis_store
    targets 4
    for name in a b; do agent $name; done
    until_true 10 spread 2 2 a b
    for _ in 1 2 3; do
        redis_stop
        pause_ms "$((2 * TTL))"
        since=$(now_ms)
        redis_start_again
        pause_ms 1500
        for name in a b; do
            found=$(logged_ms $name store_up "$since")
            [ "$found" != never ] || fail "$name has not found it in 1.5 s"
            took "ms until $name found it" "$found" 0 1500
        done
    done
    halt a b
    sound
}

# ---- refused

passwords() {
    REDISCLI_AUTH=$SECRET
    export REDISCLI_AUTH
    redis_up --requirepass "$SECRET"
    at=127.0.0.1:$REDIS_PORT
    refused "$DENIED" "redis://$at" "redis://$at" password
    refused "$DENIED" "redis://:$SECRET-not@$at" "redis://$at" password
    refused "$DENIED" "redis://somebody:$SECRET@$at" "redis://$at"
    printf '%s\n' "$SECRET" >"$CASE/password"
    printf '%s-not\n' "$SECRET" >"$CASE/wrong"
    : >"$CASE/empty"
    refused "$DENIED" "redis://$at?password_file=$CASE/wrong" "redis://$at"
    refused 2 "redis://$at?password_file=$CASE/nowhere" "$CASE/nowhere"
    exits 0 "$TENURE" acquire job --store "redis://:$SECRET@$at?fresh=1"
    exits 0 "$TENURE" acquire job-2 --store "redis://$at?password_file=$CASE/password"
    exits 0 "$TENURE" acquire job-3 --store "redis://default:$SECRET@$at"
    # Everything that prints, and an agent that runs for a while and is cut off.
    TENURE_STORE=redis://default:$SECRET@$at
    for command in doctor 'doctor --json' ls nodes status 'show job' 'target ls'; do
        exits 0 "$TENURE" $command
        lacks_secret
    done
    targets 1
    TENURE_LOG_LEVEL=debug
    export TENURE_LOG_LEVEL
    agent a
    until_true 10 all_polled
    if tr '\0' '\n' <"/proc/$(worker_of a)/cmdline" | grep -F "$SECRET"; then fail 'the password is in a command line'; fi
    redis_kill
    until_true 5 said a '"event":"store_down"'
    pause_ms 500
    redis_up --requirepass "$SECRET"
    until_true 10 said a '"event":"store_up"'
    halt a
    lacks_secret
}
DENIED=3

permissions() {
    redis_up
    redis ACL SETUSER reader on ">$SECRET" '~*' '&*' +@read +@connection +info +script
    redis ACL SETUSER keyless on ">$SECRET" '~elsewhere:*' '&*' +@all
    at=127.0.0.1:$REDIS_PORT
    refused "$DENIED" "redis://reader:$SECRET@$at?fresh=1" NOPERM evalsha
    refused "$DENIED" "redis://keyless:$SECRET@$at?fresh=1" permission
    # Whom the store never let in does not try for ever.
    for command in lock once elect; do
        exits 3 "$TENURE" $command job --store "redis://keyless:$SECRET@$at?fresh=1" -- echo never
        out_is ''
        err_has "tenure: this instance cannot" NOPERM permission
    done
    redis LPUSH lock:lease:job 1
    exits 3 "$TENURE" lock job --no-wait --store "redis://$at?fresh=1" -- echo never
    err_has "lock:lease:job holds a list that is not Tenure's" 'lease_key='
    redis DEL lock:lease:job
    # As little as it needs is enough: the rules are those of the document.
    rules=$(tr '\n' ' ' <"$TENURE_SOURCE/docs/stores/redis.md" | sed 's/.*An ACL user needs[^`]*`\([^`]*\)`.*/\1/')
    for command in $(grep -oh "call('[A-Z]*'" "$TENURE_SOURCE"/src/store/redis/*.lua | cut -d "'" -f 2 | tr '[:upper:]' '[:lower:]' |
        sort -u); do
        case " $rules " in
        *" +$command "*) ;;
        *) fail "a script calls $command, which the documented rules do not allow" ;;
        esac
    done
    set -f
    # shellcheck disable=SC2086
    redis ACL SETUSER poller on ">$SECRET" $rules
    set +f
    redis SET app:orders 1
    exits 0 "$TENURE" acquire job --store "redis://poller:$SECRET@$at?fresh=1"
    exits 0 "$TENURE" once role --store "redis://poller:$SECRET@$at" -- true
    exits 0 "$TENURE" lock one --store "redis://poller:$SECRET@$at?fresh=1" -- true
    exits 0 "$TENURE" target add a --store "redis://poller:$SECRET@$at"
    exits 0 "$TENURE" ls --store "redis://poller:$SECRET@$at"
    exits 0 "$TENURE" doctor --store "redis://poller:$SECRET@$at"
    for words in 'target rm a' 'forget job' 'forget --unregistered' history nodes plan status; do
        # shellcheck disable=SC2086
        exits 0 "$TENURE" $words --store "redis://poller:$SECRET@$at"
    done
    for command in FLUSHALL FLUSHDB 'SWAPDB 0 1' 'KEYS *' RANDOMKEY DBSIZE 'GET app:orders' 'CONFIG GET *' 'EVAL 1 0' \
        'PUBLISH app 1' 'ACL LIST' 'CLIENT LIST' MONITOR SHUTDOWN; do
        set -f
        # shellcheck disable=SC2086
        redis --user poller --pass "$SECRET" --no-auth-warning $command >"$CASE/answer" 2>&1 || true
        set +f
        grep -q NOPERM "$CASE/answer" || fail "the documented rules allow $command: $(cat "$CASE/answer")"
    done
    same 'what another program has' "$(redis GET app:orders)" 1
}

# ---- not fit

not_fit() {
    redis_up --cluster-enabled yes
    refused 1 "redis://127.0.0.1:$REDIS_PORT" 'is a Redis Cluster' "127.0.0.1:$REDIS_PORT"
    redis_kill
    for policy in allkeys-lru volatile-ttl; do
        redis_up --maxmemory 100mb --maxmemory-policy $policy
        refused 1 "redis://127.0.0.1:$REDIS_PORT" "$policy" noeviction
        exits 1 "$TENURE" doctor --store "redis://127.0.0.1:$REDIS_PORT"
        out_has 'FAIL  store' "$policy" 'ok    clock'
        redis_kill
    done
    redis_up --replicaof '127.0.0.1 1'
    refused 3 "redis://127.0.0.1:$REDIS_PORT" replica
}

tls_to_plain() {
    redis_up
    refused 3 "rediss://127.0.0.1:$REDIS_PORT?timeout=2s" "127.0.0.1:$REDIS_PORT" TLS
    same 'commands in clear' "$(calls_of hello)$(calls_of auth)" 00
}

# Databases are apart; the one of the URL is used.
databases() {
    redis_up --databases 4
    at=127.0.0.1:$REDIS_PORT
    refused 3 "redis://$at/9" 9
    exits 0 "$TENURE" acquire job --store "redis://$at/2?fresh=1"
    exits 0 "$TENURE" acquire job --store "redis://$at/3?fresh=1"
    exits 0 "$TENURE" acquire job --store "redis://$at?fresh=1"
    exits 4 "$TENURE" acquire job --store "redis+unix://$CASE/redis.sock?db=2"
    same 'keys' "$(redis -n 2 EXISTS poll:lease:job)$(redis -n 3 EXISTS poll:lease:job)$(redis EXISTS poll:lease:job)" 111
}

# ---- doctor

healthy() {
    redis_store --appendonly yes
    exits 0 "$TENURE" doctor
    out_has 'ok    store' "redis://127.0.0.1:$REDIS_PORT" 'ok    server' '7.0.15' 'master' 'ok    eviction' noeviction \
        'ok    persistence' 'ok    clock' 'ok    change notices' 'ok    latency' 'ok    TTL'
    out_lacks FAIL
    out_lacks warn
    exits 0 "$TENURE" doctor --json
    all_json
    redis CONFIG SET appendonly no
    exits 0 "$TENURE" doctor
    out_has 'warn  persistence' appendonly
    exits 1 "$TENURE" doctor --store "$TENURE_STORE?wait_replicas=1"
    out_has 'FAIL  replicas'
    redis ACL SETUSER deaf on ">$SECRET" '~*' resetchannels +@all
    exits 0 "$TENURE" doctor --store "redis://deaf:$SECRET@127.0.0.1:$REDIS_PORT"
    out_has 'warn  change notices' SUBSCRIBE
    lacks_secret
}

it 'a Redis that was away is found within a second or so' found_again
it 'a missing or wrong password is told, and none is ever shown' passwords
it 'missing permissions are told by the name of the command' permissions
it 'a cluster, a server that evicts and a replica are refused, with what to do' not_fit
it 'TLS to a server without it fails clearly, and nothing is sent in clear' tls_to_plain
it 'databases are apart' databases
it 'doctor says what it finds of a Redis, and what to do' healthy
finish
