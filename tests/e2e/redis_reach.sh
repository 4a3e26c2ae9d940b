#!/bin/sh
# A Redis that is out of reach, refuses us, or is not fit for leases; and mistakes in its URL. What the user reads names
# the server and what to do, comes in bounded time, and never shows a password.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

SECRET=open-sesame-42

# lacks_secret: nothing that was printed so far has the password.
lacks_secret() {
    if grep -rF "$SECRET" "$CASE"/out "$CASE"/err "$CASE"/*.out "$CASE"/*.err 2>/dev/null | grep -v '^\$'; then
        fail 'the password was printed'
    fi
}
# refused CODE URL TEXT...: acquire exits with CODE, and with all of the texts on standard error.
refused() {
    refused_code=$1
    refused_url=$2
    shift 2
    begin=$(boot_ms)
    exits "$refused_code" "$TENURE" acquire job --store "$refused_url"
    out_is ''
    err_has "$@"
    lacks_secret
    took 'ms until the refusal' "$(($(boot_ms) - begin))" 0 7000
}

# ---- nobody there

nobody_there() {
    for command in 'acquire job' ls doctor watch 'show job' 'release job --force' 'target ls' nodes status; do
        exits 3 "$TENURE" $command --store "redis://me:$SECRET@127.0.0.1:1/0"
        [ "$command" = doctor ] || out_is ''
        err_has 'redis://127.0.0.1:1' 'refused'
        lacks_secret
    done
    exits 3 "$TENURE" agent --targets store --poll exec:true --store-wait 0s --store "redis://me:$SECRET@127.0.0.1:1/0"
    err_has 'redis://127.0.0.1:1'
    lacks_secret
    refused 3 "redis+unix://$CASE/nowhere.sock" "$CASE/nowhere.sock"
    refused 3 redis://no-such-host.invalid/0 no-such-host.invalid
    # By the environment, as people do.
    TENURE_STORE=redis://me:$SECRET@127.0.0.1:1/0
    exits 3 "$TENURE" ls
    lacks_secret
}

# listener NAME PYTHON-STATEMENTS: somebody who listens and does as told with `client`. PORT is where.
listener() {
    background "$1" "$PYTHON" -c '
import socket, sys, threading, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(50)
with open(sys.argv[1], "w") as file:
    print(server.getsockname()[1], file=file)
def serve(client):
    exec(sys.argv[2])
    time.sleep(60)
while True:
    client, _ = server.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()' "$CASE/$1.port" "$2"
    until_true 5 test -s "$CASE/$1.port"
    PORT=$(cat "$CASE/$1.port")
}

# Whoever accepts and stays silent, or sends a little now and then, costs no more than the time-out.
silent() {
    listener silent pass
    bounded 4000 7000 "$TENURE" acquire job --store "redis://127.0.0.1:$PORT"
    bounded 400 1500 "$TENURE" acquire job --store "redis://127.0.0.1:$PORT?timeout=500ms"
    bounded 400 1500 "$TENURE" ls --store "redis://127.0.0.1:$PORT?timeout=500ms"
    bounded 400 1500 "$TENURE" doctor --store "redis://127.0.0.1:$PORT?timeout=500ms"
    bounded 400 1500 "$TENURE" acquire job --store "rediss://127.0.0.1:$PORT?timeout=500ms"
    # Whoever does not want to wait for a lock waits no longer for its store.
    bounded 900 3000 "$TENURE" lock job --no-wait --store "redis://127.0.0.1:$PORT" -- true
    bounded 1900 4000 "$TENURE" acquire job --wait 2s --store "redis://127.0.0.1:$PORT"
    bounded 1900 4000 "$TENURE" once job --wait 2s --store "redis://127.0.0.1:$PORT" -- true
    listener trickle '
while True:
    client.sendall(b"+")
    time.sleep(0.1)'
    bounded 0 1500 "$TENURE" acquire job --store "redis://127.0.0.1:$PORT?timeout=500ms"
}
# bounded LEAST MOST COMMAND...: exit code 3 in that time, with the address.
bounded() {
    least=$1
    most=$2
    shift 2
    begin=$(boot_ms)
    exits 3 "$@"
    took 'ms until it gave up' "$(($(boot_ms) - begin))" "$least" "$most"
    err_has "127.0.0.1:$PORT"
}

# Not a Redis at all.
strangers() {
    listener web 'client.recv(1000); client.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"); client.close()'
    run "$TENURE" acquire job --store "redis://127.0.0.1:$PORT"
    stranger_refused
    listener noise 'client.sendall(bytes(range(256)) * 100)'
    run "$TENURE" acquire job --store "redis://127.0.0.1:$PORT?timeout=2s"
    stranger_refused
    listener huge 'client.recv(1000); client.sendall(b"*1000000000\r\n$1000000000000\r\n")'
    run "$TENURE" acquire job --store "redis://127.0.0.1:$PORT?timeout=1s"
    stranger_refused
    listener closes 'client.close()'
    run "$TENURE" acquire job --store "redis://127.0.0.1:$PORT?timeout=1s"
    stranger_refused
}
stranger_refused() {
    case $STATUS in
    1 | 3) ;;
    *) fail "exit code $STATUS" ;;
    esac
    err_has "127.0.0.1:$PORT"
    printf '%s' "$ERR" | tr -d '\n' | LC_ALL=C grep -q '[[:cntrl:]]' && fail 'control characters of the stranger were printed'
    out_is ''
}

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

# ---- the URL

bad_urls() {
    at=127.0.0.1:1
    refused 2 "redis://$at?colour=red" colour
    refused 2 "redis://$at?ca_flie=x" ca_flie 'ca_file'
    refused 2 "redis://$at?fresh=yes" fresh
    refused 2 "redis://$at?wait_replicas=many" wait_replicas
    refused 2 "redis://$at?timeout=5" timeout
    refused 2 "redis://$at?lease_key=lease" 'lease' '{id}'
    refused 2 "redis://$at?lease_key={id}:{colour}" '{colour}'
    refused 2 "redis://$at?node_key={ns}:lease:{instance}" 'lease_key' 'node_key'
    refused 2 "redis://$at?lease_key=tenure:{ns}:{id}" "tenure:"
    refused 2 "redis://$at/first" first
    refused 2 "redis://$at/-1" -1
    refused 2 redis://127.0.0.1:99999/0 99999
    refused 2 redis://me:$SECRET@127.0.0.1:port/0 port
    refused 2 "redis://$at?ca_file=$CASE/nowhere.pem" ca_file
    refused 2 "rediss://$at?ca_file=$CASE/nowhere.pem" "$CASE/nowhere.pem"
    refused 2 redis+sentinel://127.0.0.1:1 'name'
    refused 2 redis+unix:// redis.sock
    redis_up --databases 4
    refused 3 "redis://127.0.0.1:$REDIS_PORT/9" 9
}

# Databases are apart; the one of the URL is used.
databases() {
    redis_up
    at=127.0.0.1:$REDIS_PORT
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

it 'nobody listens: exit 3, and the URL without its password, for every command' nobody_there
it 'a silent or trickling server costs no more than the time-out' silent
it 'somebody who is no Redis is refused in bounded time' strangers
it 'a Redis that was away is found within a second or so' found_again
it 'a missing or wrong password is told, and none is ever shown' passwords
it 'missing permissions are told by the name of the command' permissions
it 'a cluster, a server that evicts and a replica are refused, with what to do' not_fit
it 'TLS to a server without it fails clearly, and nothing is sent in clear' tls_to_plain
it 'mistakes in the URL are exit 2 before anybody is asked' bad_urls
it 'databases are apart' databases
it 'doctor says what it finds of a Redis, and what to do' healthy
finish
