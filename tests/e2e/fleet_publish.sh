#!/bin/sh
# Polls by HTTP and by what the targets themselves say; and the sinks, whose trouble never stops lease work.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# ---- http

serve() {
    cat >"$CASE/server.py" <<'PY'
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/hang":
            time.sleep(60)
        status = int(self.path[1:]) if self.path[1:].isdigit() else 200
        body = {"/json": b'{"up": true}\n', "/text": b"fine", "/big": b"x" * 1048577}.get(self.path, b"")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
    background server "$PYTHON" "$CASE/server.py"
    until_true 10 has_lines "$CASE/server.out" 1
    BASE=http://127.0.0.1:$(cat "$CASE/server.out")
}

http_polls() {
    serve
    TTL=1000
    RENEW=250
    for name in json text 404 500 big hang; do "$TENURE" target add $name --url "$BASE/$name"; done
    "$TENURE" target add refused --url http://127.0.0.1:1/
    "$TENURE" target add nowhere
    bare_agent a --targets store --poll http --timeout 1500ms --publish -
    for name in json text 404 500 big hang refused nowhere; do until_true 10 grep -qF "\"target\":\"$name\"" "$CASE/a.out"; done
    stop a
    first_message "$CASE/a.out" json
    same data "$DATA" '{"up": true}'
    first_message "$CASE/a.out" text
    same data "$DATA" '"fine"'
    for name in 404 500; do
        first_message "$CASE/a.out" $name
        same ok "$(field ok)" false
        case $(field error) in *$name*) ;; *) fail "the error is $(field error)" ;; esac
    done
    first_message "$CASE/a.out" big
    same ok "$(field ok)" false
    case $(field error) in *'1 MiB'*) ;; *) fail "the error is $(field error)" ;; esac
    first_message "$CASE/a.out" hang
    same ok "$(field ok)" false
    took duration_ms "$(field duration_ms)" 1400 4000
    case $(field error) in *'timed out'*) ;; *) fail "the error is $(field error)" ;; esac
    first_message "$CASE/a.out" refused
    same ok "$(field ok)" false
    first_message "$CASE/a.out" nowhere
    same ok "$(field ok)" false
    case $(field error) in *'no url'*) ;; *) fail "the error is $(field error)" ;; esac
    [ "$(grep -cF '"target":"json"' "$CASE/a.out")" -ge 4 ] || fail 'the hanging server delayed the others'
}

specs() {
    serve
    "$TENURE" target add by-url --url "$BASE/json"
    "$TENURE" target add by-exec --exec 'echo \"ran\"; touch ran'
    bare_agent a --targets store --poll spec --publish - "$@"
    for name in by-url by-exec; do until_true 10 grep -qF "\"target\":\"$name\"" "$CASE/a.out"; done
    stop a
    first_message "$CASE/a.out" by-url
    same data "$DATA" '{"up": true}'
    first_message "$CASE/a.out" by-exec
}
untrusted() {
    specs
    same ok "$(field ok)" false
    case $(field error) in *--trust-targets*) ;; *) fail "the error is $(field error)" ;; esac
    [ ! -e ran ] || fail 'a command of a target was run without trust'
}
trusted() {
    specs --trust-targets
    same data "$DATA" '"ran"'
    [ -e ran ] || fail 'the command was not run'
}

# ---- sinks

reopened() {
    targets 1
    bare_agent a --targets store --poll 'exec:echo 1' --publish "file:$CASE/results" --publish -
    until_true 10 has_lines "$CASE/results" 2
    mv "$CASE/results" "$CASE/results.1"
    pause_ms 500
    [ ! -e "$CASE/results" ] || fail 'the file was made anew without being asked'
    kill -HUP "$WARDEN"
    until_true 5 test -s "$CASE/results"
    lines=$(wc -l <"$CASE/results.1")
    pause_ms 500
    same 'lines of the old file' "$(wc -l <"$CASE/results.1")" "$lines"
    stop a
    all_json "$CASE/results"
    same 'messages in both sinks' "$(cat "$CASE/results.1" "$CASE/results" | wc -l)" "$(wc -l <"$CASE/a.out")"
}

# The warden passes a SIGHUP on to a worker that has not come to take signals yet.
reloaded_early() {
    targets 1
    UNDER="python3 $TENURE_SOURCE/tests/lib/hung_up.py"
    bare_agent a --targets store --poll 'exec:echo 1' --publish "file:$CASE/results"
    UNDER=
    until_true 10 has_lines "$CASE/results" 2
    stop a
    same 'workers that crashed' "$(times_said a worker_crashed)" 0
}

# closed_stream N [M]: lease work goes on with standard output or standard error closed.
closed_stream() {
    steady_ttl 800
    LOG=$CASE/polls
    targets 2
    background a sh -c "exec \"\$@\" $1" sh "$TENURE" agent --name a --ttl "${TTL}ms" --renew "${RENEW}ms" --settle 300ms --every 200ms \
        --targets store --publish - --poll "exec:exec $POLLER $CASE/polls poll 20 print 1"
    until_true 10 all_polled
    mark on
    pause_ms "$((TTL * 5 / 2))"
    mark off
    is_held t-1 || fail 'the lease is lost'
    kill -TERM "$PID"
    ended 0 "$PID"
    sound --targets "$TARGETS" --bound 600 --from on --until off
    same 'highest token' "$(awk '$3 == "start" { if ($5 > n) n = $5 } END { print n }' "$LOG")" 1
}

# blocked_stream REDIRECTION: a pipe that nobody reads, and that is full.
blocked_stream() {
    mkfifo "$CASE/full"
    # It has a reader that never reads, and is full before the agent begins.
    exec 9<>"$CASE/full"
    timeout 1 dd if=/dev/zero of="$CASE/full" bs=4096 count=100 2>/dev/null || :
    closed_stream "$1"
}

it 'http: answers, errors, over 1 MiB, a hanging server, a refused connection, no url' http_polls
it 'spec: a command that a target brings along is refused without --trust-targets' untrusted
it 'spec: with --trust-targets it is run' trusted
it 'several sinks get every message, and SIGHUP reopens files' reopened
it 'a SIGHUP that comes while a worker starts ends nobody' reloaded_early
it 'lease work goes on with standard output closed' closed_stream '>&-'
it 'lease work goes on with standard error closed' closed_stream '2>&-'
it 'lease work goes on when nobody reads standard error' blocked_stream "2>'$TAP_DIR/8/full'"
it 'lease work goes on when nobody reads standard output' blocked_stream ">'$TAP_DIR/9/full'"
finish
