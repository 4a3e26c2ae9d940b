#!/bin/sh
# tenure guard between topics of a real mosquitto, on SQLite: what passes, and what becomes of messages when a broker, a
# reader or the guard itself is away.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/guard.sh
. "$TENURE_SOURCE/tests/lib/guard.sh"
# shellcheck source=tests/lib/mqtt.sh
. "$TENURE_SOURCE/tests/lib/mqtt.sh"

url() { echo "mqtt://127.0.0.1:$BROKER_PORT/$1"; }
# tell TOPIC: publishes standard input, a message a line.
tell() { mosquitto_pub -h 127.0.0.1 -p "$BROKER_PORT" -V mqttv311 -q 1 -l -t "$1"; }
subscriptions() { grep -c 'Sending SUBACK to' broker.err || :; }
# subscriber OPTION...: a guard of which the broker knows; as in guard_start.
subscriber() {
    subscribed=$(subscriptions)
    background guard "$TENURE" guard "$@"
    GUARD=$PID
    until_true 10 is_subscribed
}
is_subscribed() { [ "$(subscriptions)" -gt "$subscribed" ]; }
stop_guard() {
    kill -TERM "$GUARD"
    ended "${1:-0}" "$GUARD"
}
# numbered FROM UNTIL: messages of the target a.
numbered() {
    numbered_at=$1
    while [ "$numbered_at" -le "$2" ]; do
        printf '{"target":"a","_version":1,"n":%d}\n' "$numbered_at"
        numbered_at=$((numbered_at + 1))
    done
}
all_arrived() { [ "$(arrived | sort -u | wc -l)" -ge "$1" ]; }

between_topics() {
    broker_up
    listener 'passed/#'
    take a
    hand_over a
    "$TENURE" acquire b/c+d --ttl 60s --log-level error
    subscriber --in "$(url 'polls/+')" --out "$(url 'passed/{target}')" --log-format json
    {
        message a 1
        message a 2
        printf '{"target":"a"}\n'
        printf '  { "_version" : 2 ,\t"data":[1,2.50],"target":"a"}  \n'
        message a 1
        message a 3
        printf 'nonsense\n'
    } | tell polls/a
    message b/c+d 1 | tell polls/x
    message a 2 | tell elsewhere/a
    until_true 10 has_lines listener.out 3
    stop_guard
    sort listener.out >came
    {
        echo "1 passed/a $(message a 2)"
        printf '1 passed/a   { "_version" : 2 ,\t"data":[1,2.50],"target":"a"}  \n'
        echo "1 passed/b/c%2Bd $(message b/c+d 1)"
    } | sort >expected
    cmp came expected
    grep -q '"target":"a","token":1,"current":2,"reason":"stale"' guard.err
    grep -q '"reason":"no token"' guard.err
    grep -q '"passed":3,"stale":2,"ungranted":1,"unconfirmed":0,"incomplete":1,"malformed":1,"untaken":0' guard.err
    all_json guard.err
}

from_lines() {
    broker_up
    listener 'passed/+'
    take a
    numbered 1 2500 >in
    { message a 2 && message a 1 | tr -d '\n'; } >>in # and no newline at the end
    exits 0 "$TENURE" guard --in file:in --out "$(url 'passed/{target}')"
    until_true 10 has_lines listener.out 2501
    { numbered 1 2500 && message a 1; } >expected
    arrived | cmp - expected
}

to_lines() {
    broker_up
    take a
    subscriber --in "$(url 'polls/#')"
    message a 1 | tell polls/a/b
    message a 2 | tell polls/a/b
    # One message of several lines is one line.
    printf '{\n"target":"a",\r\n"_version":1}\n' >pretty
    mosquitto_pub -h 127.0.0.1 -p "$BROKER_PORT" -q 1 -t polls/a -f pretty
    mosquitto_pub -h 127.0.0.1 -p "$BROKER_PORT" -q 1 -t polls/a -n
    message a 1 | tell polls
    until_true 10 has_lines guard.out 3
    stop_guard
    { message a 1 && echo '{ "target":"a",  "_version":1} ' && message a 1; } >expected
    cmp guard.out expected
    grep -q 'passed=3 stale=0 ungranted=1 .*malformed=1' guard.err
}

# Both connections break, and are made again; with a client_id the broker keeps what comes before that.
broker_restarted() {
    broker_up
    listener passed
    take a
    subscriber --in "$(url 'polls?client_id=guard')" --out "$(url passed)" --log-format json
    numbered 1 20 | tell polls
    until_true 10 all_arrived 20
    broker_down
    until_true 10 grep -q '"event":"input_failed"' guard.err
    until_true 10 grep -q '"event":"output_failed"' guard.err
    broker_again
    numbered 21 40 | tell polls
    until_true 15 grep -q '"event":"input_ok"' guard.err
    until_true 15 grep -q '"event":"output_ok"' guard.err
    until_true 15 all_arrived 40
    message a 2 | tell polls
    numbered 41 41 | tell polls
    until_true 10 all_arrived 41
    stop_guard
    same 'messages that came' "$(arrived | sort -u)" "$(numbered 1 41 | sort)"
    same 'reports of the failure' "$(grep -c _failed guard.err)" 2
    grep -q '"reason":"never granted"' guard.err
}

# The output's broker is another one and away: nothing is acknowledged, and what was not is the next guard's.
output_away() {
    broker_up
    take a
    numbered 1 100 >in
    subscriber --in "$(url 'polls?client_id=guard')" --out mqtt://127.0.0.1:1/passed
    tell polls <in
    until_true 10 grep -q 'event=output_failed' guard.err
    between 'messages the broker sent before it had an answer' \
        "$(grep -c 'Sending PUBLISH to guard' broker.err)" 1 20
    if grep 'Received PUBACK from guard' broker.err; then fail 'a message was acknowledged'; fi
    begin=$(now_ms)
    stop_guard 1
    took 'ms until it has ended' "$(($(now_ms) - begin))" 500 5000
    grep -q 'did not take the output: [0-9]* messages were not passed on' guard.err
    subscriber --in "$(url 'polls?client_id=guard')"
    until_true 10 has_lines guard.out 100
    stop_guard
    cmp guard.out in
}

# A reader that takes nothing: what is not read stays with the broker.
reader_is_stuck() {
    broker_up
    take a
    mkfifo pipe
    background reader sh -c 'exec 3<pipe; until [ -e go ]; do sleep 0.05; done; exec cat <&3'
    subscriber --in "$(url polls)" --out pipe
    "$PYTHON" -c 'for n in range(300): print("{\"target\":\"a\",\"_version\":1,\"n\":%d,\"s\":\"%s\"}" % (n, "x" * 9000))' >in
    tell polls <in
    let_run 1000
    between 'messages the broker got an answer for' "$(grep -c 'Received PUBACK from tenure-' broker.err || :)" 0 60
    : >go
    until_true 20 has_lines reader.out 300
    stop_guard
    cmp reader.out in
}

# Killed with messages in hand: they come again, and none is lost.
guard_is_killed() {
    broker_up
    listener passed
    take a
    numbered 1 2000 >in
    subscriber --in "$(url 'polls?client_id=guard')" --out "$(url passed)"
    background publisher sh -c "exec mosquitto_pub -h 127.0.0.1 -p $BROKER_PORT -V mqttv311 -q 1 -l -t polls <in"
    until_true 10 all_arrived 50
    kill -KILL "$GUARD"
    wait "$GUARD" 2>/dev/null || :
    background guard "$TENURE" guard --in "$(url 'polls?client_id=guard')" --out "$(url passed)"
    GUARD=$PID
    until_true 20 all_arrived 2000
    stop_guard
    arrived | sort -u >came
    sort in | cmp - came
}

# Connections of both sides that break before a message got there, and after it but before that was confirmed.
broken_connections() {
    broker_up
    listener passed
    take a
    REDIS_PORT=$BROKER_PORT
    proxy_start proxy
    port=$(cat proxy.port)
    subscriber --in "mqtt://127.0.0.1:$port/polls?client_id=guard" --out "mqtt://127.0.0.1:$port/passed"
    for round in 0 1 2 3; do
        numbered $((round * 50 + 1)) $((round * 50 + 25)) | tell polls
        until_true 15 all_arrived $((round * 50 + 25))
        case $round in 0 | 2) proxy_tell proxy drop up ;; *) proxy_tell proxy drop down ;; esac
        numbered $((round * 50 + 26)) $((round * 50 + 50)) | tell polls
        pause_ms 200
        proxy_tell proxy cut
        proxy_tell proxy clear
        until_true 15 all_arrived $((round * 50 + 50))
    done
    stop_guard
    same 'messages that came' "$(arrived | sort -u)" "$(numbered 1 200 | sort)"
    grep -q 'untaken=0' guard.err
}

# The output's broker hangs: no end to the patience, but one to the guard.
output_hangs() {
    broker_up
    listener passed
    take a
    guard_start --out "$(url 'passed?timeout=500ms')"
    say a 1
    until_true 10 has_lines listener.out 1
    freeze "$BROKER"
    numbered 1 5 >&3
    until_true 10 grep -q 'event=output_failed.*did not confirm a message within 500 ms' guard.err
    kill -CONT "$BROKER"
    until_true 15 all_arrived 6
    freeze "$BROKER"
    numbered 6 9 >&3
    pause_ms 200
    begin=$(now_ms)
    kill -TERM "$GUARD"
    ended 1 "$GUARD"
    took 'ms until it has ended' "$(($(now_ms) - begin))" 500 5000
    kill -CONT "$BROKER"
    exec 3>&-
}

# What was current when it came, and is not when the broker can be told, is not passed on.
stale_meanwhile() {
    broker_up
    listener 'passed/+'
    take a
    take b
    guard_start --out "$(url 'passed/{target}')" --log-format json
    say a 1
    until_true 10 has_lines listener.out 1
    broker_down
    until_true 10 grep -q '"event":"output_failed"' guard.err
    say a 1
    say b 1
    hand_over a
    pause_ms 1200
    broker_again
    until_true 15 all_arrived 2
    say a 2
    until_true 15 all_arrived 3
    stop_guard # the broker has the pipe, too: it does not end
    exec 3>&-
    same 'what passed' "$(arrived)" "$(message a 1 && message b 1 && message a 2)"
    grep -q '"message":2,"target":"a","token":1,"current":2,"reason":"stale"' guard.err
    grep -q '"passed":3,"stale":1' guard.err
}

# A message for which the broker ends the connection holds up no other.
too_large() {
    broker_up 'max_packet_size 10000'
    listener passed
    take a
    numbered 1 3 >in
    "$PYTHON" -c 'print("{\"target\":\"a\",\"_version\":1,\"s\":\"%s\"}" % ("x" * 20000))' >>in
    numbered 4 6 >>in
    exits 0 "$TENURE" guard --in in --out "$(url passed)"
    err_has 'event=message_dropped' 'message=4 target=a reason="the broker ends the connection' 'passed=7' 'untaken=1'
    until_true 5 all_arrived 6
    same 'messages that came' "$(arrived | sort -u)" "$(numbered 1 6)"
}

encrypted() {
    certificates
    umask 077
    mosquitto_passwd -b -c users tracker 'right one'
    echo 'right one' >password
    broker_up "certfile $CASE/server.pem" "keyfile $CASE/server.key" "cafile $CASE/ca.pem" 'require_certificate true' \
        'allow_anonymous false' "password_file $CASE/users"
    tls="password_file=$CASE/password&ca_file=$CASE/ca.pem&cert_file=$CASE/client.pem&key_file=$CASE/client.key"
    set -- --cafile ca.pem --cert client.pem --key client.key -u tracker -P 'right one'
    listener passed "$@"
    take a
    numbered 1 500 >in
    subscriber --in "mqtts://tracker@127.0.0.1:$BROKER_PORT/polls?$tls" \
        --out "mqtts://tracker@127.0.0.1:$BROKER_PORT/passed?$tls"
    mosquitto_pub -h 127.0.0.1 -p "$BROKER_PORT" -V mqttv311 -q 1 -l -t polls "$@" <in
    until_true 20 has_lines listener.out 500
    stop_guard
    arrived | cmp - in
    if grep -F 'right one' guard.err; then fail 'a password was shown'; fi
}


mistakes() {
    : >file
    refuses 'names no topic' guard --in mqtt://host
    refuses 'mqtt://HOST/TOPIC/+' guard --in mqtt://host/
    refuses 'is none to subscribe to' guard --in 'mqtt://host/a+'
    refuses 'is none to subscribe to' guard --in 'mqtt://host/a/#/b'
    refuses 'those are for subscribers' guard --in mqtt://host/a --out 'mqtt://host/b/+'
    refuses '{target}, {namespace}' guard --out 'mqtt://host/{id}'
    refuses 'a port is a number' guard --in mqtt://host:0/a
    refuses 'password_file=PATH' guard --in mqtt://user:secret@host/a
    case $ERR in *secret*) fail 'the password is shown' ;; esac
    refuses 'are for mqtts://' guard --in 'mqtt://host/a?ca_file=file'
    refuses 'client_id' guard --in 'mqtt://host/a?client_id='
    refuses 'client_id' guard --out 'mqtt://host/a?client_id=x'
    refuses 'would come in again' guard --in mqtt://host/a --out mqtt://host/a
    refuses 'would come in again' guard --in 'mqtt://host/polls/+' --out 'mqtt://host:1883/polls/{target}'
    refuses 'would come in again' guard --in 'mqtt://host/#' --out 'mqtt://host/passed'
}

it 'between two topics the current messages pass as they came, stale ones and those without a token do not' between_topics
it 'lines go to a topic, and it ends when all are confirmed' from_lines
it 'messages of topics become lines' to_lines
it 'a broker that was restarted gets and gives what there is' broker_restarted
it 'while the output is away nothing is acknowledged, and nothing lost' output_away
it 'while the output takes nothing the broker keeps the messages' reader_is_stuck
it 'what a guard that was killed had in hand comes again' guard_is_killed
it 'what a broken connection left unconfirmed comes again, and nothing is lost' broken_connections
it 'a broker that hangs is given up and tried again, and does not keep the guard from ending' output_hangs
it 'what has become stale while the output was away is not passed on' stale_meanwhile
it 'a message that the broker does not take holds up no other' too_large
it 'with TLS, a certificate and a password the messages get there' encrypted
it 'mistakes are told' mistakes
finish
