#!/bin/sh
# Instances say who they are: --address and --label, as nodes, owner and REST show them; and who leads, over HTTP.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

# page URL: its status is $CODE, its text $OUT.
page() {
    OUT=$("$PYTHON" -c 'import sys, urllib.request, urllib.error
try:
    reply = urllib.request.urlopen(sys.argv[1], timeout=10)
except urllib.error.HTTPError as error:
    reply = error
print(reply.status, reply.read().decode(), end="")' "$1")
    CODE=${OUT%% *}
    OUT=${OUT#* }
}
holds_all() { [ "$("$TENURE" ls --held | wc -l)" -eq 2 ]; }
# served NAME EVENT: the address that a candidate has logged.
served() { sed -n "s/.*\"event\":\"$2\".*\"address\":\"\([^\"]*\)\".*/\1/p" "$CASE/$1.err" | head -n 1; }
is_served() { [ -n "$(served "$1" "$2")" ]; }

agents() {
    printf 'one\ntwo\n' >"$CASE/targets"
    background a "$TENURE" agent --targets "file:$CASE/targets" --poll exec:true --ttl 20s --settle 200ms --name a \
        --address db7.example:7000 --label zone=eu-1 --label 'rack=b 12' --label 'a.b="\' --label a-b=second \
        --metrics 0 --log-format json
    until_true 20 holds_all
    page "http://$(served a metrics_served)/metrics"
    info='address="db7.example:7000",label_zone="eu-1",label_rack="b 12",label_a_b="\"\\"} 1'
    case $OUT in *'tenure_instance_info{id="a-'*"$info"*) ;; *) fail "the metrics do not have $info" ;; esac
    exits 0 "$TENURE" nodes --json
    out_has '"address":"db7.example:7000"' '"labels":{"zone":"eu-1","rack":"b 12",' '"state":"live"'
    exits 0 "$TENURE" nodes
    out_has 'db7.example:7000' 'zone=eu-1,rack=b 12,'
    exits 0 "$TENURE" owner one
    token=$("$TENURE" show one --json | sed -n 's/.*"token":\([0-9]*\).*/\1/p')
    case $OUT in "a-"*"	db7.example:7000	$token") ;; *) fail "owner says '$OUT'" ;; esac
    exits 0 "$TENURE" owner two --json
    out_has '"target":"two"' '"address":"db7.example:7000"' '"labels":{"zone":"eu-1","rack":"b 12",' '"token":'
    exits 1 "$TENURE" owner three
    out_is ''
    err_has three
    exits 0 "$TENURE" acquire plain
    exits 0 "$TENURE" owner plain
    case $OUT in *"	-	"*) ;; *) fail "owner says '$OUT'" ;; esac
    exits 0 "$TENURE" owner plain --json
    out_has '"address":null' '"labels":{}'
}
over_rest() {
    printf 'one\ntwo\n' >"$CASE/targets"
    background serve "$TENURE" serve --listen 127.0.0.1:0
    until_true 20 test -s "$CASE/serve.out"
    server=http://$(cat "$CASE/serve.out")
    background a "$TENURE" agent --store "$server" --targets "file:$CASE/targets" --poll exec:true --ttl 20s --settle 200ms \
        --name a --address '[::1]:80' --label zone=eu-1
    until_true 20 holds_all
    page "$server/api/v1/poll/one/owner"
    same status "$CODE" 200
    out_has '"holder_id":"a-' '"address":"[::1]:80"' '"version":' '"labels":{"zone":"eu-1"}'
    page "$server/api/v1/poll/nodes"
    out_has '"address":"[::1]:80"' '"labels":{"zone":"eu-1"}'
    page "$server/api/v1/poll/three/owner"
    same status "$CODE" 404
    out_has not_found
    page "$server/openapi.json"
    out_has '/api/v1/{ns}/{id}/owner'
}
leader_http() {
    for name in a b; do
        candidate "$name" --leader-http 127.0.0.1:0 --address "$name.example:1" --label "name=$name"
        until_true 20 is_served "$name" leader_served
    done
    until_true 20 somebody_leads
    for name in a b; do entered "$name"; done
    first=$(name_of "$(leader)")
    other=$(echo ab | tr -d "$first")
    page "http://$(served "$first" leader_served)/leader"
    same status "$CODE" 200
    out_has 'leads web'
    page "http://$(served "$other" leader_served)/leader"
    same status "$CODE" 503
    page "http://$(served "$other" leader_served)/metrics"
    same status "$CODE" 404
    exits 0 "$TENURE" owner web --namespace leader
    out_has "$first.example:1"
    exits 0 "$TENURE" nodes --namespace leader --json
    out_has '"state":"leading"' '"state":"waiting"' '"role":"web"' "\"name\":\"$other\""
    stop "$first"
    until_true 20 leads "$other"
    page "http://$(served "$other" leader_served)/leader"
    same status "$CODE" 200
}
sick_leader() {
    : >"$CASE/a.well"
    : >"$CASE/b.well"
    for name in a b; do
        TENURE_TOKEN_FILE=x PGPASSWORD=secret candidate "$name" --healthy "env >$CASE/$name.env; test -e $CASE/$name.well" \
            --healthy-every 2s
    done
    until_true 40 somebody_leads
    ! grep 'TENURE_\|PGPASSWORD' "$CASE/a.env" || fail 'a health check gets what the store is reached with'
    for name in a b; do entered "$name"; done
    first=$(name_of "$(leader)")
    other=$(echo ab | tr -d "$first")
    rm "$CASE/$first.well"
    until_true 40 leads "$other"
    said "$first" '"event":"health_failed"' || fail 'the log does not say why'
    rm "$CASE/$other.well"
    until_true 40 role_is_free
    : >"$CASE/$first.well"
    until_true 40 leads "$first"
    said "$first" '"event":"health_ok"' || fail 'the log does not say that it is well'
    still_candidates a b
    never_two 3
}
sick_agent() {
    printf 'one\ntwo\n' >"$CASE/targets"
    for name in a b; do
        : >"$CASE/$name.well"
        background "$name" "$TENURE" agent --targets "file:$CASE/targets" --poll exec:true --ttl 20s --settle 200ms \
            --name "$name" --healthy "test -e $CASE/$name.well" --healthy-every 2s
    done
    until_true 40 each_holds 1 1
    rm "$CASE/a.well"
    until_true 40 each_holds 0 2
    : >"$CASE/a.well"
    until_true 40 each_holds 1 1
}
# each_holds A B: so many targets are a's and b's.
each_holds() {
    "$TENURE" ls --held --json >"$CASE/held"
    [ "$(grep -c '"instance":"a-' "$CASE/held")" -eq "$1" ] && [ "$(grep -c '"instance":"b-' "$CASE/held")" -eq "$2" ]
}
priorities() {
    TTL=2000
    RENEW=500
    candidate low --priority 1 --failback 1s
    until_true 20 leads low
    candidate high --priority 9 --failback 1s
    until_true 30 leads high
    candidate middle --priority 5 --failback 1s
    entered middle
    stop high
    until_true 30 leads middle
    never_two 3
    exits 2 "$TENURE" elect web --priority x -- true
    err_has --priority
    exits 2 "$TENURE" elect web --failback 5 -- true
    err_has --failback 5s
    exits 2 "$TENURE" elect web --failback 5s --count 2 -- true
    err_has --count
}
# A candidate with another TTL than those that are there leads nevertheless, and says once what it has to do without.
other_ttl() {
    candidate first
    until_true 20 leads first
    ROLE=reports
    TTL=5000
    candidate second --priority 9
    until_true 20 leads second
    until_true 20 grep -q instance_unannounced "$CASE/second.err"
    pause_ms 2000
    same 'warnings' "$(grep -c instance_unannounced "$CASE/second.err")" 1
    grep instance_unannounced "$CASE/second.err" >"$CASE/warning"
    for part in '"level":"warn"' '"target":"reports"' '"ttl_ms":5000' '"others_ttl_ms":2400' '--ttl 2400ms' \
        'another --namespace' 'no priority'; do
        grep -qF -- "$part" "$CASE/warning" || fail "the warning lacks $part: $(cat "$CASE/warning")"
    done
    if grep -q instance_unannounced "$CASE/first.err"; then fail 'the first candidate warns, too'; fi
}
mistakes() {
    for address in '' host ':80' 'host:' 'host:0' 'host:65536' 'ho st:80' "$(printf 'h%.0s' $(seq 300)):1"; do
        exits 2 "$TENURE" elect web --address "$address" -- true
        err_has address
    done
    for label in '' zone '=x' 'a b=c' "a=$(printf 'v%.0s' $(seq 200))" 'a=b
c'; do
        exits 2 "$TENURE" elect web --label "$label" -- true
        err_has label
    done
    exits 2 "$TENURE" elect web --label a=1 --label a=2 -- true
    err_has twice
    exits 2 "$TENURE" owner
    exits 2 "$TENURE" owner a b
    exits 2 "$TENURE" owner 'a//b'
    nothing_written
    exits 2 "$TENURE" elect web --leader-http nonsense -- true
    err_has --leader-http
}

also 'agents say where they are, and owner and nodes show it' agents
also 'the server shows it, and answers who holds a target' over_rest
also 'a candidate says over HTTP whether it leads' on_store_of_roles leader_http
also 'the highest priority leads, and gets the role back after the failback' on_store_of_roles priorities
also 'a candidate with another TTL leads without a turn, and warns once' on_store_of_roles other_ttl
also 'a sick leader hands over, and stands in line again when it is well' on_store_of_roles sick_leader
also 'a sick agent hands its targets over, and gets its share again' sick_agent
also 'mistakes are told' mistakes
gather
finish
