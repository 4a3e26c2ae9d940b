#!/bin/sh
# The whole of seed 004 with real parts: trackers that reach only the manager's REST API share scenes and publish over MQTT;
# PostgreSQL behind a pooler holds the truth; an analytics consumer stands behind a guard. Trackers are killed and paused,
# the manager and PostgreSQL are restarted, and no stale message gets through.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/manager.sh
. "$TENURE_SOURCE/tests/lib/manager.sh"
# shellcheck source=tests/lib/mqtt.sh
. "$TENURE_SOURCE/tests/lib/mqtt.sh"
# shellcheck source=tests/lib/postgres.sh
. "$TENURE_SOURCE/tests/lib/postgres.sh"

TTL=3000
RENEW=600
export TENURE_NAMESPACE=scenes

api() {
    api_method=$1
    api_path=$2
    shift 2
    curl -s -m 10 -X "$api_method" "http://127.0.0.1:$MANAGER_PORT/api/v1/scenes$api_path" "$@"
}

# tracker NAME: an agent, whose scenes come from the manager's list.
tracker() {
    bare_agent "$1" --targets "http://127.0.0.1:$MANAGER_PORT/api/v1/scenes?every=1s" \
        --poll "exec:exec $POLLER $CASE/polls poll $LASTS" --publish "mqtt://127.0.0.1:$BROKER_PORT/scenes/{target}"
}

# consumer: what gets through the guard is in accepted.
consumer() {
    mkfifo wire
    # shellcheck disable=SC2094 # a pipe
    background guard setpriv --pdeathsig KILL "$TENURE" guard --in wire --out accepted --cache-ttl 2s --log-format json
    background subscriber setpriv --pdeathsig KILL sh -c "exec mosquitto_sub -h 127.0.0.1 -p $BROKER_PORT -q 1 -t 'scenes/+' -F %p >wire"
    until_true 10 grep -q 'Sending SUBACK' "$CASE/broker.err"
}

# accepted_since LINES SCENE...: each scene has got through after that line of accepted.
accepted_since() {
    accepted_lines=$1
    shift
    for accepted_scene in "$@"; do
        tail -n "+$((accepted_lines + 1))" accepted | grep -qF "\"scene_id\":\"$accepted_scene\"" || return 1
    done
}
scenes_go_on() {
    go_on_lines=$(wc -l <accepted)
    # shellcheck disable=SC2086 # a list
    until_true 30 accepted_since "$go_on_lines" $SCENES
}

# by_hand VERSION DATA: a message of a tracker that somebody wrote with curl and mosquitto_pub.
by_hand() {
    mosquitto_pub -h 127.0.0.1 -p "$BROKER_PORT" -q 1 -t scenes/by-hand \
        -m "{\"scene_id\":\"by-hand\",\"data\":\"$2\",\"_version\":$1}"
}
has_got() { grep -qF "\"data\":\"$1\"" accepted; }
is_refused() { grep -F '"event":"stale_refused"' guard.err | grep -qF "\"token\":$1"; }

# never_stale: for each scene, the versions of what got through never go down.
never_stale() {
    "$PYTHON" - <<'END'
import json
newest = {}
for line in open("accepted"):
    message = json.loads(line)
    scene, version = message["scene_id"], message["_version"]
    assert version >= newest.get(scene, 0), (message, newest)
    newest[scene] = version
assert len(newest) == 7, newest
END
}

story() {
    postgres_up
    trap postgres_remove EXIT
    MANAGER_STORE=$POOLED_URL
    manager_up
    broker_up
    SCENES='scene-1 scene-2 scene-3 scene-4 scene-5 scene-6'
    TARGETS=$(echo "$SCENES" | tr ' ' ,)
    for scene in $SCENES; do api PUT "/$scene" -d '{}'; done
    consumer
    for name in a b c; do tracker $name; done
    until_true 20 spread 2 2 a b c
    scenes_go_on

    # One is killed with its warden: the others have its scenes when its leases have ended.
    kill_host b
    until_true 20 spread 3 3 a c
    scenes_go_on

    # One by hand is paused for longer than its TTL; another takes the scene; it comes back with its old version.
    api PUT /by-hand -d '{"paused":true}'
    old=$(api POST /by-hand/lease -d '{"holder_id":"slow","ttl_ms":1000}' | sed 's/.*"version":\([0-9]*\).*/\1/')
    by_hand "$old" first
    until_true 10 has_got first
    pause_ms 1200
    new=$(api POST /by-hand/lease -d '{"holder_id":"quick","ttl_ms":60000}' | sed 's/.*"version":\([0-9]*\).*/\1/')
    [ "$new" -gt "$old" ] || fail "the version went from $old to $new"
    by_hand "$new" second
    until_true 10 has_got second
    by_hand "$old" stale
    until_true 10 is_refused "$old"
    same 'the answer to its renewal' "$(api POST /by-hand/lease/renew -o /dev/null -w '%{http_code}' -d '{"holder_id":"slow"}')" 404

    # The table that the seed prints, for people with psql.
    same 'the row of by-hand' "$(query 5432 "SELECT holder_id, version FROM tenure.scene_leases WHERE scene_id = 'by-hand'")" "quick|$new"

    manager_down KILL
    manager_start
    scenes_go_on
    postgres_restart
    scenes_go_on

    halt a c
    has_got stale && fail 'a stale message got through'
    never_stale
}

it 'trackers, manager, PostgreSQL, pooler, MQTT and a guard: no stale message gets through, and no scene is left' story
finish
