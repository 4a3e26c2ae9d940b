#!/bin/sh
# Messages that go to a Redis: streams and channels. The leases are in SQLite, so that the Redis can be away while they go
# on.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

# publishing COUNT SINK...: an agent `a` with so many targets; its messages are also in a.out.
publishing() {
    targets "$1"
    shift
    # shellcheck disable=SC2046
    bare_agent a --targets store --poll 'exec:echo "{\"token\":$TENURE_TOKEN}"' --publish - $(printf ' --publish %s' "$@")
}

# stream KEY OPTION: checks the form of its entries, which are the messages with their tokens; prints, as OPTION says,
# messages: each message, a line each
# late MS: how many came more than MS after they were made
stream() {
    redis --raw XRANGE "$1" - + | "$PYTHON" -c '
import datetime, json, sys
mode = sys.argv[1]
lines = sys.stdin.read().split("\n")[:-1]
assert len(lines) % 9 == 0, len(lines)
late = 0
for at in range(0, len(lines), 9):
    entry, *fields = lines[at:at + 9]
    fields = dict(zip(fields[::2], fields[1::2]))
    message = json.loads(fields["message"])
    assert list(fields) == ["target", "instance", "_version", "message"], fields
    for name in "target", "instance", "_version":
        assert fields[name] == str(message[name]), fields
    assert message["data"]["token"] == message["_version"] >= 1
    if mode == "messages":
        print(fields["message"])
    else:
        made = datetime.datetime.strptime(message["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
        late += int(entry.split("-")[0]) - made.timestamp() * 1000 > int(sys.argv[2])
if mode == "late":
    print(late)' "$2" "${3:-}"
}
has_entries() { [ "$(redis XLEN "$1")" -ge "$2" ]; }
# nothing_lost FILE: each message that was printed is in it.
nothing_lost() {
    sort -u a.out >printed
    sort -u "$1" >arrived
    same 'messages that did not arrive' "$(comm -23 printed arrived)" ''
    same 'messages that nobody sent' "$(comm -13 printed arrived)" ''
}

streams() {
    redis_up
    publishing 3 redis-stream:polls
    until_true 10 has_entries polls 15
    stop a
    stream polls messages >messages
    nothing_lost messages
    same 'messages that came twice' "$(sort messages | uniq -d)" ''
    [ "$(grep -cF '"target":"t-3"' messages)" -ge 3 ] || fail 't-3 is missing'
    if said a publish_dropped; then fail 'something was dropped'; fi
}

channels() {
    redis_up
    background listener redis-cli -s "$CASE/redis.sock" --raw SUBSCRIBE polls
    until_true 5 has_lines listener.out 3
    publishing 2 redis-channel:polls
    until_true 10 has_lines listener.out 30
    stop a
    pause_ms 200
    grep '^{' listener.out >messages
    nothing_lost messages
    same 'messages that came twice' "$(sort messages | uniq -d)" ''
}

names() {
    redis_up
    TENURE_NAMESPACE=scenes
    export TENURE_NAMESPACE
    publishing 2 'redis-stream:{{{namespace}}:{target}' redis-stream:all
    until_true 10 has_entries all 6
    stop a
    for target in t-1 t-2; do
        stream "{scenes}:$target" messages >"$target"
        same "messages of $target" "$(cat $target)" "$(grep -F "\"target\":\"$target\",\"scene_id\":\"$target\"" a.out)"
    done
}

# Connections that break before a message got there, and after it got there but before that was confirmed: what was not
# confirmed is sent again.
broken_connections() {
    EVERY=50
    TTL=6000
    RENEW=1000
    redis_up
    proxy_start proxy
    TENURE_REDIS_URL=$(through proxy)
    publishing 4 redis-stream:polls
    until_true 10 has_entries polls 10
    for _ in 1 2 3; do
        proxy_tell proxy drop up
        pause_ms 200
        proxy_tell proxy clear
        proxy_tell proxy cut
        pause_ms 300
        proxy_tell proxy swallow 1 cut after XADD
        pause_ms 300
    done
    stop a
    stream polls messages >messages
    nothing_lost messages
    [ -n "$(sort messages | uniq -d)" ] || fail 'nothing was sent twice: the test has tested nothing'
    if said a publish_dropped; then fail 'something was dropped'; fi
    # Per target in the order in which they were made, but for those that came twice.
    for target in t-1 t-2 t-3 t-4; do
        same "order of $target" "$(grep -F "\"target\":\"$target\"" messages | awk '!seen[$0]++')" "$(grep -F "\"target\":\"$target\"" a.out)"
    done
}

# b joins while a cannot send: a keeps its targets until its messages have left. So no message of a follows one of b's, and
# none is lost.
handed_over_unsent() {
    TTL=30000
    RENEW=1000
    redis_up
    proxy_start proxy
    TENURE_REDIS_URL=$(through proxy)
    publishing 4 redis-stream:polls redis-channel:other
    until_true 10 has_entries polls 8
    proxy_tell proxy drop both
    proxy_tell proxy refuse
    pause_ms 500
    TENURE_REDIS_URL=redis+unix://$CASE/redis.sock
    bare_agent b --targets store --poll 'exec:echo "{\"token\":$TENURE_TOKEN}"' --publish redis-stream:polls
    until_true 10 instances_are 2
    pause_ms 1500
    proxy_tell proxy clear
    proxy_tell proxy cut
    until_true 15 spread 2 2 a b
    until_true 5 has_message_of b
    stop a
    stop b
    stream polls messages >messages
    "$PYTHON" -c '
import json, sys
last = {}
for line in sys.stdin:
    message = json.loads(line)
    target, token = message["target"], message["_version"]
    if token < last.get(target, 0):
        sys.exit(f"a message of {target} with token {token} came after one with {last[target]}")
    last[target] = token' <messages || fail 'a message came after those of a later holder'
    if said a publish_dropped; then return; fi # it took longer than a TTL
    sort -u a.out >printed
    sort -u messages >came
    same 'messages of a that did not arrive' "$(comm -23 printed came)" ''
}
has_message_of() { redis --raw XREVRANGE polls + - COUNT 50 | grep -qF "\"instance\":\"$1-"; }

not_a_stream() {
    redis_up
    redis SET polls x
    publishing 1 redis-stream:polls redis-stream:others
    until_true 10 has_entries others 5
    until_true 5 said a '"event":"sink_failed"' '"sink":"redis-stream:polls"' WRONGTYPE
    until_true 5 said a '"event":"publish_dropped"' '"sink":"redis-stream:polls"'
    redis DEL polls
    until_true 5 said a '"event":"sink_ok"' '"sink":"redis-stream:polls"'
    stop a
    same 'reports of the failure' "$(times_said a '"event":"sink_failed"')" 1
    stream polls messages >messages
    tail -n 1 a.out | grep -qF -f - messages || fail 'the last message is missing'
}

wrong_usage() {
    exits 2 "$TENURE" agent --targets store --poll http --publish redis-stream:polls
    err_has 'redis-stream:polls needs a Redis store: use --store redis://..., or set TENURE_REDIS_URL'
    exits 2 "$TENURE" agent --targets store --poll http --publish 'redis-channel:{x}' --redis redis://localhost
    err_has '{target}, {namespace}'
    for sink in redis-stream: redis-channel: redis:x; do
        exits 2 "$TENURE" agent --targets store --poll http --publish $sink --redis redis://localhost
        err_has 'there is no sink' 'redis-stream:KEY' 'redis-channel:NAME'
    done
}

it 'a stream gets each message once, with its token, and those made last before the end' streams
it 'a channel gets each message' channels
it 'names are filled in with target and namespace' names
it 'what a broken connection left unconfirmed is sent again, and nothing is lost' broken_connections
it 'a target is handed over when its messages have left, and not before' handed_over_unsent
it 'a key that is no stream loses its messages, and the other sinks go on' not_a_stream
it 'a sink without a Redis, or written wrongly, is refused' wrong_usage
finish
