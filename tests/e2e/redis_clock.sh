#!/bin/sh
# The wall clock of a Redis jumps (tests/lib/shifted_clock.c): what docs/GUARANTEES.md says of it, and no more. Fault 13.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

# jump SECONDS: of the wall clock of the server, from now on.
jump() {
    "$PYTHON" -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("q", int(sys.argv[2])))' "$CASE/clock" "$1"
}
redis_with_clock() {
    head -c 8 /dev/zero >"$CASE/clock"
    SHIFTED_CLOCK=$CASE/clock
    LD_PRELOAD=${SHIFTED_CLOCK_LIBRARY:?the path of the library}
    export SHIFTED_CLOCK LD_PRELOAD
    redis_up
    unset SHIFTED_CLOCK LD_PRELOAD
    TENURE_STORE=redis://127.0.0.1:$REDIS_PORT${REDIS_OPTIONS:+?$REDIS_OPTIONS}
    export TENURE_STORE
    redis_begin poll
}
server_seconds() { redis TIME | head -n 1; }
jumped() {
    before=$(server_seconds)
    jump "$1"
    between 'seconds that the clock has jumped by' "$(($(server_seconds) - before))" "$2" "$3"
}

# Forward: leases end early, which is said; the token is a higher one, and the old one renews nothing.
forward() {
    redis_with_clock
    exits 0 "$TENURE" acquire job --ttl 60s
    token=$OUT
    exits 4 "$TENURE" acquire job --ttl 60s
    jumped 3600 3590 3610
    exits 0 "$TENURE" acquire job --ttl 60s
    [ "$OUT" -gt "$token" ] || fail "token $OUT after $token"
    exits 5 "$TENURE" renew job --token "$token"
}

# Backward: a lease that is held lasts longer, until it is renewed; nobody is let in early, no token is lower.
backward() {
    redis_with_clock
    jump 3600
    exits 0 "$TENURE" acquire job --ttl 60s
    token=$OUT
    jumped 0 -3610 -3590
    between 'ms that are left' "$(remaining_of job)" 3500000 3700000
    exits 4 "$TENURE" acquire job --ttl 60s
    exits 0 "$TENURE" renew job --token "$token"
    between 'ms that are left after a renewal' "$(remaining_of job)" 50000 60000
    exits 0 "$TENURE" release job --token "$token"
    exits 0 "$TENURE" acquire job --ttl 60s
    [ "$OUT" -gt "$token" ] || fail "token $OUT after $token"
}

it 'fault 13: a clock of Redis that jumps forward ends leases early, and lowers no token' forward
it 'fault 13: a clock of Redis that jumps back keeps leases longer, and a renewal puts them right' backward
finish
