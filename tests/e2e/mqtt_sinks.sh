#!/bin/sh
# Messages that go to an MQTT broker. The leases are in SQLite, so that the broker can be away while they go on.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/mqtt.sh
. "$TENURE_SOURCE/tests/lib/mqtt.sh"

# publishing COUNT SINK [OPTION...]: an agent `a` with so many targets; its messages are also in a.out.
publishing() {
    targets "$1"
    shift
    bare_agent a --targets store --poll 'exec:echo "{\"token\":$TENURE_TOKEN}"' --publish - --publish "$@"
}
topic() { echo "mqtt://127.0.0.1:${1:-$BROKER_PORT}/polls/{target}"; }
# nothing_lost: each message that was printed has arrived.
nothing_lost() {
    sort -u a.out >printed
    arrived | sort -u >came
    same 'messages that did not arrive' "$(comm -23 printed came)" ''
    same 'messages that nobody sent' "$(comm -13 printed came)" ''
}
# quiet_end: nothing more is made, all of it arrives, and the agent stops. (At its end it waits a second, and then drops.)
quiet_end() {
    # shellcheck disable=SC2046
    "$TENURE" target pause $("$TENURE" target ls | cut -f 1)
    let_run 500
    until_true 5 has_arrived
    stop a
    until_true 5 has_arrived
}
has_arrived() { [ "$(arrived | sort -u | wc -l)" -ge "$(sort -u a.out | wc -l)" ]; }
# made_between FROM UNTIL: of the messages on standard input, those of polls that began between these wall times in ms.
made_between() {
    "$PYTHON" -c '
import datetime, json, sys
for line in sys.stdin:
    at = datetime.datetime.strptime(json.loads(line)["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    if int(sys.argv[1]) <= at.timestamp() * 1000 < int(sys.argv[2]):
        print(line, end="")' "$1" "$2"
}
dropped_by() { sed -n 's/.*"event":"publish_dropped".*"count":\([0-9]*\).*/\1/p' "$CASE/$1.err" | tail -n 1; }

messages() {
    broker_up
    listener '#'
    TENURE_NAMESPACE=scenes
    export TENURE_NAMESPACE
    "$TENURE" target add scene-1 a+b/c
    bare_agent a --targets store --poll 'exec:echo "{\"token\":$TENURE_TOKEN}"' --publish - \
        --publish "mqtt://127.0.0.1:$BROKER_PORT/{{{namespace}/{target}/data"
    until_true 10 has_lines listener.out 10
    quiet_end
    nothing_lost
    same 'messages that came twice' "$(arrived | sort | uniq -d)" ''
    same topics "$(cut -d ' ' -f 1-2 listener.out | sort -u)" '1 {scenes/a%2Bb/c/data
1 {scenes/scene-1/data'
    arrived >came
    first_message came scene-1 scenes
    same data "$DATA" '{"token": 1}'
    first_message came a+b/c scenes
    if said a publish_dropped; then fail 'something was dropped'; fi
}

# Away for longer than a lease: lease work goes on, and nothing is sent after its lease has ended.
long_absence() {
    steady_ttl 1500
    broker_up
    listener 'polls/+'
    publishing 2 "$(topic)"
    until_true 10 has_lines listener.out 4
    gone=$(now_ms)
    broker_down
    until_true 5 said a '"event":"sink_failed"'
    pause_ms "$((TTL + 3500))"
    back=$(now_ms)
    broker_again
    until_true 8 said a '"event":"sink_ok"'
    pause_ms 1000
    last=$(tail -n 1 a.out)
    stop a
    until_true 8 grep -qF "$last" listener.out
    # Those of the first moments may have got there before the broker ended.
    repeated 'messages that were late' "$(made_between $((gone + 500)) $((back - TTL)) <a.out | wc -l)" 20 80 100
    same 'late messages that came' "$(arrived | made_between $((gone + 500)) $((back - TTL)))" ''
    repeated 'messages dropped' "$(dropped_by a)" 16 80 100
    same 'highest token' "$(sed -n 's/.*"_version":\([0-9]*\).*/\1/p' a.out | sort -n | tail -n 1)" 1
}

# is_back COUNT: the agent has told so many times that its sink works again.
is_back() { [ "$(times_said a '"event":"sink_ok"')" -ge "$1" ]; }
# vanished up|down BYTES: so many have vanished on this way.
vanished() { [ "$(proxy_count proxy "dropped_$1")" -gt "$2" ]; }

# Connections that break before a message got there, and after it got there but before that was confirmed: what was not
# confirmed is sent again. Each one breaks when something has vanished, and when the one before it has been mended: what
# is made meanwhile must not be late.
broken_connections() {
    EVERY=50
    TTL=60000
    RENEW=1000
    broker_up
    listener 'polls/+'
    REDIS_PORT=$BROKER_PORT
    proxy_start proxy
    publishing 4 "$(topic "$(cat proxy.port)")"
    until_true 10 has_lines listener.out 10
    cuts=0
    for way in up down up down; do
        before=$(proxy_count proxy "dropped_$way")
        proxy_tell proxy drop $way
        until_true 5 vanished $way "$before"
        proxy_tell proxy refuse # or the next connection would begin with a hole
        proxy_tell proxy cut
        proxy_tell proxy clear
        cuts=$((cuts + 1))
        until_true 15 is_back $cuts
    done
    until_true 15 has_lines listener.out "$(($(wc -l <listener.out) + 20))"
    quiet_end
    nothing_lost
    [ -n "$(arrived | sort | uniq -d)" ] || fail 'nothing was sent twice: the test has tested nothing'
    if said a publish_dropped; then fail 'something was dropped'; fi
    # Per target in the order in which they were made, but for those that came twice.
    for target in t-1 t-2 t-3 t-4; do
        same "order of $target" "$(arrived | grep -F "\"target\":\"$target\"" | awk '!seen[$0]++')" \
            "$(grep -F "\"target\":\"$target\"" a.out)"
    done
}

# A message that is larger than what the broker's machine takes for it is still on our side, and stays there.
hanging() {
    broker_up
    listener 'polls/+'
    "$TENURE" target add t-1
    bare_agent a --targets store --publish - --publish "$(topic)" \
        --poll "exec:if [ -e $CASE/large ]; then head -c 900000 /dev/zero | tr '\\0' x; else echo 1; fi"
    until_true 10 has_lines listener.out 3
    : >large
    freeze "$BROKER"
    hangs=$(($(now_ms) + 2 * EVERY))
    pause_ms 4000
    goes_on=$(now_ms)
    kill -CONT "$BROKER"
    until_true 8 said a '"event":"sink_ok"'
    freeze "$BROKER"
    pause_ms 1000
    stop_ms=$(now_ms)
    stop a
    took 'ms of stopping' "$(($(now_ms) - stop_ms))" 0 4500
    kill -CONT "$BROKER"
    pause_ms 500
    repeated 'messages that were late' "$(made_between "$hangs" $((goes_on - TTL)) <a.out | wc -l)" 5 30 200
    same 'late messages that came' "$(arrived | made_between "$hangs" $((goes_on - TTL)) | cut -c 1-200)" ''
    until_true 5 said a '"event":"publish_dropped"'
}

# ---- a planned handover while messages are unsent

# in_order: of each target, no message follows one of a later token. Both agents have sent some.
in_order() {
    arrived | "$PYTHON" -c '
import json, sys
last, names = {}, set()
for line in sys.stdin:
    message = json.loads(line)
    target, token = message["target"], message["_version"]
    names.add(message["instance"].split("-")[0])
    if token < last.get(target, 0):
        sys.exit(f"a message of {target} with token {token} came after one with {last[target]}")
    last[target] = token
if names != {"a", "b"}:
    sys.exit(f"messages of {sorted(names)} instead of a and b: nothing was tested")' || fail 'messages are out of order'
}
# unsent COUNT WEIGHT: a has this weight and so many targets, and reaches the broker through a proxy that lets nothing pass
# any more; messages of a wait. b, which reaches the broker, has joined and is ready.
unsent() {
    broker_up
    listener 'polls/+'
    REDIS_PORT=$BROKER_PORT
    proxy_start proxy
    publishing "$1" "$(topic "$(cat proxy.port)")" --weight "$2"
    until_true 10 has_lines listener.out $((2 * $1))
    proxy_tell proxy drop both
    proxy_tell proxy refuse
    made=$(wc -l <a.out)
    until_true 10 has_lines a.out $((made + 3 * $1))
    bare_agent b --targets store --poll 'exec:echo "{\"token\":$TENURE_TOKEN}"' --publish "$(topic)"
    all_there 2
}
came_from() { arrived | grep -qF "\"instance\":\"$1-"; }

# It is not: what waits is dropped at the deadline that the lease had when it was made, and only then does b hold the
# target. None of it is sent when the way is free again.
drained_unsent() {
    TTL=4000
    RENEW=500
    unsent 1 100
    same 'targets of b before the drain' "$(held_by b)" 0
    drained=$(now_ms)
    "$TENURE" drain "$(instance_of a)"
    until_true 20 holds b 1
    waited=$(($(now_ms) - drained))
    least=$((TTL * 7 / 8 - RENEW - 2 * EVERY - $(late_ms)))
    echo "handed over $waited ms after the drain (at least $least expected)"
    [ "$waited" -ge "$least" ] || fail 'handed over with messages unsent'
    until_true 10 said a '"event":"publish_dropped"'
    until_true 10 came_from b
    proxy_tell proxy clear
    proxy_tell proxy cut
    seen=$(wc -l <listener.out)
    until_true 10 has_lines listener.out $((seen + 10))
    let_run 1500 # a sink that still had something would have tried again by then
    stop a
    stop b
    in_order
}

too_large() {
    TTL=6000
    RENEW=1000
    broker_up 'max_packet_size 10000'
    listener 'polls/+'
    "$TENURE" target add small large
    bare_agent a --targets store --publish "$(topic)" \
        --poll 'exec:[ "$TENURE_TARGET" = small ] && echo 1 || head -c 20000 /dev/zero | tr "\0" x' --every 1s
    until_true 10 said a '"event":"publish_dropped"'
    until_true 10 has_lines listener.out 3
    stop a
    same 'large ones that came' "$(grep -cF '"target":"large"' listener.out)" 0
}

encrypted() {
    certificates
    broker_up "cafile $CASE/ca.pem" "certfile $CASE/server.pem" "keyfile $CASE/server.key" 'require_certificate true'
    listener 'polls/+' --cafile ca.pem --cert client.pem --key client.key
    publishing 2 "mqtts://127.0.0.1:$BROKER_PORT/polls/{target}?ca_file=$CASE/ca.pem&cert_file=$CASE/client.pem&key_file=$CASE/client.key"
    until_true 10 has_lines listener.out 10
    quiet_end
    nothing_lost
    if said a sink_failed; then fail 'it did not work at once'; fi
}

# distrusts TEXT... -- URL: it is told, and nothing is sent.
distrusts() {
    bare_agent a --targets store --poll 'exec:echo 1' --publish - --publish "$1"
    shift
    until_true 10 has_lines a.out 3
    until_true 5 said a '"event":"sink_failed"' "$@"
    stop a
    same 'reports of the failure' "$(times_said a '"event":"sink_failed"')" 1
    if grep -F 'Received PUBLISH' broker.err; then fail 'something was sent'; fi
}

strangers() {
    targets 1
    certificates
    broker_up "certfile $CASE/server.pem" "keyfile $CASE/server.key"
    distrusts "mqtts://127.0.0.1:$BROKER_PORT/polls?ca_file=$CASE/other.pem" 'certificate verify failed'
    distrusts "mqtts://127.0.0.1:$BROKER_PORT/polls" 'certificate verify failed'
    broker_down
    broker_up "certfile $CASE/elsewhere.pem" "keyfile $CASE/elsewhere.key"
    distrusts "mqtts://127.0.0.1:$BROKER_PORT/polls?ca_file=$CASE/ca.pem" 'TLS'
    broker_down
    broker_up
    distrusts "mqtts://127.0.0.1:$BROKER_PORT/polls?ca_file=$CASE/ca.pem" '"error":"mqtts://127.0.0.1:'
}

credentials() {
    umask 077
    mosquitto_passwd -b -c users tracker 'right one'
    broker_up 'allow_anonymous false' "password_file $CASE/users"
    listener 'polls/+' -u tracker -P 'right one'
    echo 'wrong one' >password
    publishing 1 "mqtt://tracker@127.0.0.1:$BROKER_PORT/polls/{target}?password_file=$CASE/password"
    until_true 5 said a '"event":"sink_failed"' 'does not let us in'
    # It is read again with each attempt.
    echo 'right one' >password
    until_true 5 said a '"event":"sink_ok"'
    until_true 5 has_lines listener.out 3
    stop a
    if grep -F -e 'right one' -e 'wrong one' a.out a.err; then fail 'a password was shown'; fi
}

not_there() {
    broker_up
    broker_down
    publishing 1 "$(topic)"
    until_true 5 said a '"event":"sink_failed"' 'Connection refused' "mqtt://127.0.0.1:$BROKER_PORT"
    broker_again
    until_true 5 said a '"event":"sink_ok"'
    stop a
}

# refused SINK TEXT...
refused() {
    refused_sink=$1
    shift
    exits 2 "$TENURE" agent --targets store --poll http --publish "$refused_sink"
    err_has "$@"
}
wrong_usage() {
    : >file
    refused mqtt:// 'names no topic' 'mqtt://HOST/TOPIC/{target}'
    refused mqtt://host 'names no topic'
    refused mqtt://host/ 'names no topic'
    refused 'mqtt://host/a/#' 'those are for subscribers'
    refused 'mqtt://host/a/+/b' 'those are for subscribers'
    refused 'mqtt://host/{x}' '{target}, {namespace}'
    refused mqtt://host:0/a 'a port is a number'
    refused mqtt://host:99999/a 'a port is a number'
    refused mqtt://one,two/a 'is not the address of a broker'
    refused mqtt://::1/a 'is not the address of a broker'
    refused mqtt://user:secret@host/a 'password_file=PATH'
    case $ERR in *secret*) fail 'the password is shown' ;; esac
    refused 'mqtt://host/a?password_file=file' 'password_file needs a user'
    refused 'mqtt://user@host/a?password_file=nothing' 'password_file=nothing cannot be read'
    refused 'mqtt://host/a?ca_file=file' 'are for mqtts://'
    refused 'mqtts://host/a?cert_file=file' 'both cert_file and key_file'
    refused 'mqtts://host/a?cert_file=file&key_file=file' 'cert_file needs ca_file'
    refused 'mqtts://host/a?ca_fil=file' "did you mean 'ca_file'?"
    refused 'mqtt://host/a?timeout=0s' 'timeout is 0'
    refused mqttx://user:secret@host/a 'there is no sink' 'mqtt://HOST/TOPIC/{target}'
    case $ERR in *secret*) fail 'the password is shown' ;; esac
}

it 'a broker gets each message once, with QoS 1, its token and its scene, on the topic of its target' messages
it 'a broker that is away for longer than a lease stops nothing, and gets nothing after its lease has ended' long_absence
it 'what a broken connection left unconfirmed is sent again, and nothing is lost' broken_connections
it 'a broker that hangs stops neither the polls nor the end of the agent, and gets nothing late' hanging
it 'a target that is drained is handed over when its unsent messages were dropped, and none of them comes' drained_unsent
it 'a message that the broker does not take holds up no other' too_large
it 'with TLS and a certificate of the client the messages get there' encrypted
it 'a broker of an unknown CA or another name, or without TLS, gets nothing, and that is told' strangers
it 'wrong credentials are told, and right ones used when they are there' credentials
it 'a broker that comes later than the agent is found' not_there
it 'a sink that is written wrongly is refused with the reason' wrong_usage
finish
