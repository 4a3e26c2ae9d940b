#!/bin/sh
# Targets from a list that a server answers with (http://).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/mqtt.sh
. "$TENURE_SOURCE/tests/lib/mqtt.sh"

TTL=3000
RENEW=800
OPTIONS='every=200ms'

# server_up [OPTION...]: starts it; URL is the list.
server_up() {
    [ -e list ] || : >list
    rm -f server.port
    background server "$PYTHON" "$TENURE_SOURCE/tests/lib/target_server.py" --directory "$CASE" --port-file "$CASE/server.port" "$@"
    SERVER=$PID
    until_true 10 test -s server.port
    PORT=$(cat server.port)
    URL=http://127.0.0.1:$PORT/api/v1/scenes
}
# scenes LINE...: the whole list, put there at once.
scenes() {
    for line in "$@"; do printf '%s\n' "$line"; done >list.new
    mv list.new list
}
mode() {
    printf '%s\n' "$*" >mode.new
    mv mode.new mode
}
# reading [URL]: an agent `a` whose messages have the target's url as data.
reading() { redis_agent a "${1:-$URL?$OPTIONS}"; }
requests() { wc -l <server.out; }
more_requests() { [ "$(requests)" -ge "$1" ]; }
# passes COUNT: waits for so many more requests.
passes() { until_true 10 more_requests $(($(requests) + $1)); }
answered() { grep -cF "\"status\": $1" server.out || :; }

lists() {
    scenes '{"id":"one","url":"http://a/1","holder_id":"x","version":4,"expires_at":null,"paused":false}' \
        '{"scene_id":"two","id":"two","url":"http://a/2"}' '{"scene_id":"three","url":"http://a/3","every":"50ms"}' \
        '{"id":"four","paused":true}'
    server_up
    reading
    for each in one:1 two:2 three:3; do until_true 10 polled_as "${each%:*}" "http://a/${each#*:}"; done
    same 'messages of four' "$(messages_of four)" 0
    # Who holds it is not a change; another url is; one more, one less, one resumed.
    scenes '{"id":"one","url":"http://b/1","holder_id":"y","version":5}' '{"id":"two","url":"http://a/2","holder_id":"z"}' \
        '{"id":"four","paused":false,"url":"http://a/4"}' '{"id":"five","url":"http://a/5"}'
    until_true 5 polled_as one http://b/1
    until_true 5 polled_as four http://a/4
    until_true 5 polled_as five http://a/5
    until_true 5 removed a three
    quiet three
    is_free three || fail 'the lease of a target that is gone is kept'
    polled_on one two five
    stop a
    same reports "$(times_said a target_refused)" 0
}

pages() {
    "$PYTHON" -c 'for i in range(25): print(f"{{\"id\":\"a+b/{i}\",\"url\":\"http://a/{i}\"}}")' >list
    server_up
    reading "$URL?limit=4&$OPTIONS&leased=false"
    until_true 15 polled_as a+b/24 http://a/24
    until_true 15 polled_as a+b/0 http://a/0
    until_true 5 more_requests 14
    same 'pages of the first pass' "$(head -n 7 server.out | grep -c after)" 6
    head -n 1 server.out | grep -qF '"path": "/api/v1/scenes?limit=4&leased=false"' || fail 'the query is not the one that was given'
    # A page in the middle that cannot be read: the list says nothing.
    head -n 5 list >list.new && mv list.new list
    mode page 2
    until_true 5 said a '"event":"target_source_failed"' 'HTTP status 500'
    pause_ms $((TTL + 500))
    never_removed
    rm mode
    until_true 5 said a '"event":"target_source_ok"'
    until_true $((TTL / 1000 * 2 + 4)) removed a a+b/24
    stop a
}

unchanged() {
    scenes '{"id":"one","url":"http://a/1"}' '{"id":"two","url":"http://a/2"}' '{"id":"three","url":"http://a/3"}'
    server_up
    reading
    until_true 10 polled_as one http://a/1
    passes 3
    [ "$(answered 304)" -ge 2 ] || fail 'the tag is not sent back'
    scenes '{"id":"one","url":"http://a/1"}' '{"id":"two","url":"http://a/2"}'
    until_true 5 removed a three
    passes 4
    tail -n 1 server.out | grep -qF '"status": 304' || fail 'the new tag is not sent back'
    polled_on one
    stop a
}

# While it cannot be read, what was read before stands.
out_of_order() {
    scenes '{"id":"one","url":"http://a/1"}' '{"id":"two","url":"http://a/2"}'
    server_up
    reading "$URL?$OPTIONS&timeout=3s"
    until_true 10 polled_as one http://a/1
    until_true 10 polled_as two http://a/2
    for each in 'status 503=HTTP status 503' 'status 204=HTTP status 204' 'text {"a":=is not JSON' 'text {"items":[]}=is not a JSON array' \
        'text [{"id":"x","id":"y"}]=is not JSON' 'huge=larger than 16 MiB' 'slow=did not answer in time' 'cut=' \
        'link <http://127.0.0.1:1/x>; rel="next"=is on another server' 'link <?limit=1000>; rel="next"=is the same again' \
        'status 302=HTTP status 302'; do
        : >a.err
        mode "${each%%=*}"
        case $each in link*) mode "${each%=*}" ;; esac
        until_true 10 said a '"event":"target_source_failed"' "${each##*=}"
        rm mode
        until_true 15 said a '"event":"target_source_ok"'
    done
    kill -KILL "$SERVER"
    until_true 5 said a '"event":"target_source_failed"' 'Failed to connect'
    pause_ms $((TTL + 500))
    polled_on one two
    stop a
    never_removed
}

bad_entries() {
    scenes '{"id":"good","url":"http://a/"}' '"text"' '{"url":"http://a/"}' '{"id":7}' '{"id":"bad id"}' '{"id":"../up"}' \
        '{"id":"a","scene_id":"b"}' '{"id":"every","every":"soon"}' '{"id":"paused","paused":1}' '{"id":"nul\u0000"}' \
        '{"id":"twice","url":"http://a/"}' '{"id":"twice","url":"http://b/"}'
    server_up
    reading
    until_true 10 polled_as good http://a/
    for each in 'not an object with an' '\"id\" is not a text' 'bad id' '../up' 'differ' 'soon' 'is not true or false' 'another entry has the same id'; do
        until_true 5 said a '"event":"target_refused"' "$each"
    done
    passes 3
    same 'reports, some passes later' "$(times_said a '"event":"target_refused"')" 10
    stop a
}

secured() {
    certificates
    scenes '{"id":"one","url":"http://a/1"}'
    echo 'sesame' >token
    echo 'wrong' >wrong
    server_up --tls server.pem server.key
    mode token sesame
    URL=https://127.0.0.1:$PORT/api/v1/scenes
    reading "$URL?$OPTIONS&ca_file=$CASE/ca.pem&token_file=$CASE/wrong"
    until_true 5 said a '"event":"target_source_failed"' 'HTTP status 401'
    # It is read again with each attempt.
    cp token wrong
    until_true 10 polled_as one http://a/1
    stop a
    if grep -F sesame a.out a.err; then fail 'the token is shown'; fi
    seen=$(requests)
    for other in "ca_file=$CASE/other.pem" 'x=y'; do
        : >a.err
        reading "$URL?$OPTIONS&$other&token_file=$CASE/token"
        until_true 5 said a '"event":"target_source_failed"' 'certificate'
        stop a
    done
    same 'requests by those who do not trust it' "$(($(requests) - seen))" 0
}

redirected() {
    scenes '{"id":"one","url":"http://a/1"}'
    server_up
    reading "http://127.0.0.1:$PORT/scenes?$OPTIONS"
    until_true 10 polled_as one http://a/1
    stop a
}

# refused SOURCE TEXT...
refused() {
    refused_source=$1
    shift
    exits 2 "$TENURE" agent --targets "$refused_source" --poll http
    err_has "$@"
}
wrong_usage() {
    : >file
    refused http:// 'names no host'
    refused http:///path 'names no host'
    refused http://user:secret@host/ 'token_file=PATH'
    case $ERR in *secret*) fail 'the password is shown' ;; esac
    refused 'http://host/?ca_file=file' 'are for https://'
    refused 'https://host/?key_file=file' 'both cert_file and key_file'
    refused 'http://host/?token_file=nothing' 'token_file=nothing cannot be read'
    refused 'http://host/?every=0s' "every is at least 1ms"
    refused 'http://host/?timeout=soon' 'soon'
    refused ftp://user:secret@host/ 'there is no target source' 'http://HOST/PATH'
    case $ERR in *secret*) fail 'the password is shown' ;; esac
}

it 'the entries of a list are polled, and changes of it are followed' lists
it 'a list in pages is read to its end, and one that could not be removes nothing' pages
it 'a list that has not changed is not sent again' unchanged
it 'while the list cannot be read, or makes no sense, what was read before stands, and that is told once' out_of_order
it 'entries that cannot be used are told once, and the others polled' bad_entries
it 'with TLS the server is verified, and gets the token of the file' secured
it 'a redirection is followed' redirected
it 'a source that is written wrongly is refused with the reason' wrong_usage
finish
