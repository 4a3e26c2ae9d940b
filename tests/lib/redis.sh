# A private redis-server for the end-to-end tests, and the fault proxy in front of it; sourced after tap.sh and fleet.sh.
# The server listens on a socket in the case's directory and on a port of the loopback address, keeps nothing on disk
# unless it is told to, and ends with the case, also when the test itself is killed.
# shellcheck shell=sh disable=SC2034 # REDIS and the URLs are for the tests

REDIS_PORT=

# ---- the server

# redis_up [OPTION...]: starts it with these options, and names it to the agents' sources and sinks. Its port is chosen
# at random below those that the kernel gives away, and another one if somebody has it; it stays the same for the case.
redis_up() {
    mkdir -p "$CASE/redis"
    for redis_option in "$@"; do printf '%s\n' "$redis_option"; done >"$CASE/redis.options"
    redis_tries=0
    until redis_start "${REDIS_PORT:-$((10000 + $(od -An -N2 -tu2 /dev/urandom) % 22000))}"; do
        redis_tries=$((redis_tries + 1))
        [ "$redis_tries" -lt 10 ] || fail "no redis-server could be started: $(tail -n 5 "$CASE/redis.out")"
    done
    TENURE_REDIS_URL=redis+unix://$CASE/redis.sock
    export TENURE_REDIS_URL
}

# redis_start PORT: 1 when somebody else has the port.
redis_start() {
    redis_port=$1
    set --
    while IFS= read -r redis_option; do set -- "$@" "$redis_option"; done <"$CASE/redis.options"
    background redis setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$redis_port" \
        --unixsocket "$CASE/redis.sock" --dir "$CASE/redis" --save '' --appendonly no "$@"
    REDIS=$PID
    until_true 10 redis_answers_or_not
    if [ "$(redis_pid)" = "$REDIS" ]; then
        REDIS_PORT=$redis_port
        return 0
    fi
    wait "$REDIS" || :
    return 1
}
redis_pid() { redis INFO server 2>/dev/null | tr -d '\r' | sed -n 's/^process_id://p'; }
redis_answers_or_not() { [ "$(redis_pid)" = "$REDIS" ] || grep -q 'Address already in use' "$CASE/redis.out"; }

# redis_down [SIGNAL]
redis_down() {
    kill "-${1:-KILL}" "$REDIS"
    wait "$REDIS" 2>/dev/null || :
}
# It ends in order and keeps what it has.
redis_stop() {
    redis SHUTDOWN SAVE >/dev/null 2>&1 || :
    wait "$REDIS" 2>/dev/null || :
}
redis_kill() { redis_down KILL; }

# redis_start_again [empty | DIRECTORY]: at the same address with the same options; with what it had on disk, with
# nothing, or with what redis_keep has kept.
redis_start_again() {
    if [ $# -gt 0 ]; then
        rm -rf "$CASE/redis"
        if [ "$1" = empty ]; then mkdir "$CASE/redis"; else cp -r "$1" "$CASE/redis"; fi
    fi
    redis_start "$REDIS_PORT" || fail "redis-server could not be started again: $(tail -n 5 "$CASE/redis.out")"
}
# redis_keep DIRECTORY: a copy of what it has at this moment.
redis_keep() {
    redis SAVE >/dev/null
    rm -rf "$1"
    cp -r "$CASE/redis" "$1"
}

redis() { redis-cli -s "$CASE/redis.sock" "$@"; }

# calls_of COMMAND: how often it was called.
calls_of() {
    redis INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\).*/\1/p" | grep . || echo 0
}

# ---- as the store

# redis_store [OPTION...]: starts it and makes it the case's store, with REDIS_OPTIONS of the environment in its URL. It is not new: a first use would wait for a TTL.
redis_store() {
    redis_up "$@"
    TENURE_STORE=redis://127.0.0.1:$REDIS_PORT${REDIS_OPTIONS:+?$REDIS_OPTIONS}
    export TENURE_STORE
    FLEET_STORE=redis
    redis_begin poll
}
# redis_begin NAMESPACE: somebody who knew that it is new was here before. The agents do not say so (fresh=1): it would
# give up what the tests are about.
redis_begin() {
    "$TENURE" target add begin --namespace "$1" --log-level error \
        --store "redis://127.0.0.1:$REDIS_PORT?fresh=1${REDIS_OPTIONS:+&$REDIS_OPTIONS}"
    "$TENURE" target rm begin --namespace "$1" --log-level error
}
# epoch: it is another one after data was lost.
epoch() { redis HGET tenure:poll:records N | tr '\000' ' ' | cut -c 31- | cut -d ' ' -f 1-6; }
epoch_other_than() { [ -n "$(epoch | tr -d ' ')" ] && [ "$(epoch)" != "$1" ]; }

# ---- the fault proxy

# proxy_start NAME: one in front of the server. proxy_tell NAME COMMAND... tells it what to do; through NAME is the URL.
proxy_start() {
    background "$1" "$PYTHON" "$TENURE_SOURCE/tests/lib/fault_proxy.py" --listen 127.0.0.1:0 \
        --to "127.0.0.1:$REDIS_PORT" --control "unix:$CASE/$1.control" --port-file "$CASE/$1.port"
    until_true 10 test -s "$CASE/$1.port"
}
proxy_tell() {
    proxy_name=$1
    shift
    echo "\$ $proxy_name: $*"
    "$PYTHON" "$TENURE_SOURCE/tests/lib/fault_proxy.py" --tell "unix:$CASE/$proxy_name.control" "$@"
}
through() { echo "redis://127.0.0.1:$(cat "$CASE/$1.port")${REDIS_OPTIONS:+?$REDIS_OPTIONS}"; }
# proxy_count NAME WHAT: of its statistics.
proxy_count() { proxy_tell "$1" stats | sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p"; }

# ---- agents whose targets are in it

# redis_agent NAME SOURCE: its messages are in NAME.out; their data is the target's url.
redis_agent() {
    bare_agent "$1" --targets "$2" --poll 'exec:echo "$TENURE_URL"' --publish -
}

# session ID ADDRESS [MEMBERS]
session() { redis SET "session:$1" "{\"id\":\"$1\",\"address\":\"$2\"${3:-}}"; }

messages_of() { cat "$CASE"/*.out | grep -cF "\"target\":\"$1\"" || :; }
# polled_as TARGET DATA
polled_as() { cat "$CASE"/*.out | grep -F "\"target\":\"$1\"" | grep -qF "\"data\":\"$2\""; }
more_than() { [ "$(messages_of "$1")" -gt "$2" ]; }
# polled_on TARGET...: each is polled from now on.
polled_on() {
    for target in "$@"; do
        seen=$(messages_of "$target")
        until_true 6 more_than "$target" "$((seen + 1))"
    done
}
# quiet TARGET: for a second it is not polled.
quiet() {
    seen=$(messages_of "$1")
    pause_ms 1000
    same "messages of $1" "$(messages_of "$1")" "$seen"
}
# never_removed: no agent has given anything up, and each target had one holder.
never_removed() {
    if cat "$CASE"/*.err | grep -F '"reason":"removed"'; then fail 'a target was removed'; fi
    if cat "$CASE"/*.out | grep -F '"_version":' | grep -vF '"_version":1,'; then fail 'a target changed hands'; fi
}
removed() { said "$1" '"event":"lease_closing"' "\"target\":\"$2\"" '"reason":"removed"'; }
is_free() { [ "$(state_of "$1")" = free ]; }
