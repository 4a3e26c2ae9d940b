#!/bin/sh
# Everything that uses a store, through `tenure serve`: fleets, elections, one-shot jobs and the commands, while the
# manager is killed, stands still, is away, is not there yet, wants a token, or speaks TLS. Seed 004's table of failure
# modes, row by row (the guard's row is the guard's).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/manager.sh
. "$TENURE_SOURCE/tests/lib/manager.sh"

three_agents() {
    targets 9
    for name in a b c; do agent $name; done
    until_true 15 spread 3 3 a b c
    until_true 10 holders_polled
}

# ---- fleets

# Killed and at once there again: nobody loses anything.
restarted() {
    TTL=4000
    RENEW=800
    manager_up
    three_agents
    mark killed
    manager_down KILL
    manager_start
    pause_ms 4500
    mark end
    spread 3 3 a b c || fail 'the shares have changed'
    for name in a b c; do
        same "times that $name lost a lease" "$(times_said $name '"event":"lease_lost"')" 0
    done
    halt a b c
    sound --targets "$TARGETS" --bound 3000 --from killed --until end
}

# away SIGNAL MEND: sustained outage. By the deadline all work has stopped, and it goes on by itself.
away() {
    manager_up
    three_agents
    mark down
    if [ "$1" = STOP ]; then freeze "$MANAGER"; else manager_down "$1"; fi
    pause_ms "$((TTL + 100))"
    mark closed
    no_pollers || fail 'a poller runs after the deadline'
    pause_ms "$TTL"
    mark up
    no_poll_between closed up
    if [ "$1" = STOP ]; then kill -CONT "$MANAGER"; else manager_start; fi
    until_true 15 all_polled up
    for name in a b c; do said $name '"event":"store_down"' || fail "$name does not say that the store is down"; done
    halt a b c
    sound --targets "$TARGETS" --bound "$((4 * TTL + 4000))"
}

# Renewals fail: no new poll, well before the lease ends.
uncertain() {
    TTL=6000
    RENEW=500
    manager_up
    three_agents
    manager_down KILL
    pause_ms 1800 # until each has missed a renewal
    mark failed
    pause_ms 1000
    mark later
    awk '$3 == "mark" { on = $4 == "failed" } on && $3 == "start" { found = 1; print } END { exit found }' "$LOG" ||
        fail 'a poll was begun although a renewal had failed'
    manager_start
    until_true 10 all_polled later
    halt a b c
}

# Started before the manager: it is tried again with growing pauses.
early() {
    manager_up
    targets 3
    manager_down KILL
    agent a
    pause_ms 2500
    is_gone "$(warden_of a)" && fail 'the agent gave up'
    manager_start
    until_true 15 all_polled
    halt a
    sound --targets "$TARGETS" --bound 20000
}

# ---- between them

# The answers do not come: closed, in bounded time. (drop: one-way, half-open: the peer has vanished.)
partitioned() {
    manager_up
    targets 3
    REDIS_PORT=$MANAGER_PORT
    proxy_start proxy
    direct=$TENURE_STORE
    TENURE_STORE=http://127.0.0.1:$(cat "$CASE/proxy.port")
    agent a
    TENURE_STORE=$direct
    until_true 10 all_polled
    mark cut
    # shellcheck disable=SC2086
    proxy_tell proxy $1
    pause_ms "$((TTL + 100))"
    mark closed
    no_pollers || fail 'a poller runs after the deadline'
    pause_ms 800
    mark mended
    no_poll_between closed mended
    proxy_tell proxy clear
    proxy_tell proxy cut
    until_true 15 all_polled mended
    halt a
    sound --targets "$TARGETS" --bound 20000
}

# A name server that does not answer costs no more than the time-out.
hanging_names() {
    cat >"$CASE/hang.c" <<'END'
#include <netdb.h>
#include <unistd.h>
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
    (void)node, (void)service, (void)hints, (void)result;
    sleep(20);
    return EAI_AGAIN;
}
END
    gcc -shared -fPIC -o "$CASE/hang.so" "$CASE/hang.c"
    begin=$(boot_ms)
    run env LD_PRELOAD="$CASE/hang.so" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        "$TENURE" show job --store 'http://manager.example:7480?timeout=700ms'
    same 'exit code' "$STATUS" 3
    took 'ms' "$(($(boot_ms) - begin))" 500 6000
}

# ---- the commands

commands() {
    manager_up
    # More than one request can carry, and specs that make a page too large.
    # shellcheck disable=SC2046
    "$TENURE" target add --namespace many $(seq -f 'a-name-that-makes-the-request-longer-than-a-mebibyte-may-be-%g' 1 15000)
    same 'targets' "$("$TENURE" target ls --namespace many | wc -l)" 15000
    seq 1 300 | "$PYTHON" -c '
import json, sys, urllib.request
for first in range(0, 300, 10):
    edits = [{"action": "put", "target": {"id": "t%d" % i, "spec": "x" * 40000}} for i in range(first, first + 10)]
    urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/api/v1/large", json.dumps({"edits": edits}).encode())).read()
page = urllib.request.urlopen(sys.argv[1] + "/api/v1/large?limit=10000")
size = len(page.read())
assert size < 10000000 and page.headers["Link"], (size, page.headers["Link"])' "$TENURE_STORE"
    same 'targets' "$("$TENURE" target ls --namespace large | wc -l)" 300
    exits 0 "$TENURE" target add x y/z
    exits 0 "$TENURE" target ls --json
    out_has '"x"' '"y/z"'
    background watch "$TENURE" watch --json
    until_true 10 sh -c "[ \"\$(curl -s http://127.0.0.1:$MANAGER_PORT/metrics | sed -n 's/^tenure_event_readers //p')\" = 1 ]"
    exits 0 "$TENURE" acquire x
    out_is 1
    exits 4 "$TENURE" acquire x
    exits 0 "$TENURE" ls --json
    out_has '"target":"x"' '"token":1'
    exits 0 "$TENURE" renew x --token 1
    exits 5 "$TENURE" renew x --token 2
    exits 0 "$TENURE" release x --token 1
    exits 0 "$TENURE" acquire y/z --ttl 60s
    exits 0 "$TENURE" release y/z --force --now
    exits 1 "$TENURE" show nowhere
    exits 0 "$TENURE" show x
    exits 0 "$TENURE" target pause x
    exits 0 "$TENURE" target rm x
    until_true 5 grep -q lease_released "$CASE/watch.out"
    grep -q lease_acquired "$CASE/watch.out" || fail 'watch does not tell of an acquire'
    for command in nodes status plan doctor; do exits 0 "$TENURE" "$command"; done
    manager_down KILL
    for command in ls 'show x' 'acquire x' nodes status 'target ls' doctor; do
        # shellcheck disable=SC2086
        exits 3 "$TENURE" $command
        err_has "127.0.0.1:$MANAGER_PORT"
    done
}

# ---- tokens and TLS

digest() { printf %s "$1" | sha256sum | cut -d ' ' -f 1; }

tokens() {
    printf 'fleet hold poll * %s\nreader read * * %s\nboss admin * * %s\n' "$(digest f)" "$(digest r)" "$(digest b)" >"$CASE/auth"
    for name in f r b; do echo "$name" >"$CASE/token.$name"; done
    echo wrong >"$CASE/token.wrong"
    manager_up --auth-file "$CASE/auth"
    url=$TENURE_STORE
    exits 0 "$TENURE" target add t-1 t-2 t-3 --store "$url?token_file=$CASE/token.b"
    TARGETS=t-1,t-2,t-3
    TENURE_STORE="$url?token_file=$CASE/token.f"
    agent a
    until_true 10 all_polled
    exits 0 "$TENURE" ls --store "$url?token_file=$CASE/token.r"
    out_has t-1
    exits 3 "$TENURE" acquire t-1 --store "$url?token_file=$CASE/token.r"
    err_has 'may not'
    for bad in "$url" "$url?token_file=$CASE/token.wrong"; do
        run "$TENURE" ls --store "$bad"
        [ "$STATUS" -ne 0 ] || fail 'it was let in'
        err_has token
    done
    exits 2 "$TENURE" ls --store "$url?token_file=$CASE/nowhere"
    exits 2 "$TENURE" ls --store "http://me:secret@127.0.0.1:$MANAGER_PORT"
    case $ERR in *secret*) fail 'the password was printed' ;; esac
    halt a
    sound --targets "$TARGETS" --bound 5000
}

encrypted() {
    for ca in ca foreign; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$ca" -keyout "$ca.key" -out "$ca.pem"
    done
    echo subjectAltName=IP:127.0.0.1 >ext
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out server.csr
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.pem
    echo extendedKeyUsage=clientAuth >ext
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=client -keyout client.key -out client.csr
    openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out client.pem
    manager_up --tls-cert "$CASE/server.pem" --tls-key "$CASE/server.key" --client-ca "$CASE/ca.pem"
    url=https://127.0.0.1:$MANAGER_PORT
    own="cert_file=$CASE/client.pem&key_file=$CASE/client.key"
    TENURE_STORE="$url?ca_file=$CASE/ca.pem&$own"
    targets 3
    agent a
    until_true 10 all_polled
    halt a
    for bad in "$url?ca_file=$CASE/foreign.pem&$own" "$url?$own" "$url?ca_file=$CASE/ca.pem" "http://127.0.0.1:$MANAGER_PORT" \
        "https://localhost:$MANAGER_PORT?ca_file=$CASE/ca.pem&$own"; do
        run "$TENURE" ls --store "$bad"
        [ "$STATUS" -eq 3 ] || [ "$STATUS" -eq 1 ] || fail "exit code $STATUS for $bad"
        out_is ''
    done
    sound --targets "$TARGETS" --bound 5000
}

it 'the manager killed and there again: nobody loses a lease' restarted
it 'sustained outage, the manager dead: all work stops by its deadline, and goes on by itself' away KILL
it 'sustained outage, the manager stands still: the same' away STOP
it 'a renewal that fails: no poll is begun any more' uncertain
it 'at the start without a manager: tried again until it is there' early
it 'fault 18: answers do not come back: closed by the deadline' partitioned 'drop down'
it 'fault 17: the connection is half-open: closed by the deadline' partitioned half-open
it 'fault 16: a name server that hangs costs no more than the time-out' hanging_names
it 'the commands work as on any store' commands
it 'tokens from a file: who has none, a wrong one or another role is told' tokens
it 'https with a CA and a client certificate, and nothing else' encrypted
finish
