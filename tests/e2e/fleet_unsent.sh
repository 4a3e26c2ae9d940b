#!/bin/sh
# Results that wait: for a reader that does not read, for a renewal, for memory. A target is not released while a message of
# it may still leave; a result that was withheld leaves as soon as its lease is confirmed; and what was lost on the way to
# the loop leaves no target held and unpolled.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# ---- lines that nobody reads

# unread SIZE: a's standard output is a pipe that nobody reads until b holds the target. Polls go on all the same. What
# was in the pipe then is all that ever comes out of it, but for the rest of the line of which a part was in it.
unread() {
    TTL=2000
    RENEW=500
    EVERY=150
    LOG=$CASE/polls
    targets 1
    cat >"$CASE/reader.py" <<'PY'
import fcntl, os, subprocess, sys, time
case, *command = sys.argv[1:]
reading, writing = os.pipe()
os.dup2(writing, 1)
os.close(writing)
agent = subprocess.Popen(command, pass_fds=())
os.dup2(2, 1)
with open(f"{case}/warden", "w") as file:
    print(agent.pid, file=file)
room = fcntl.fcntl(reading, 1032)  # F_GETPIPE_SZ
while not os.path.exists(f"{case}/read"):
    time.sleep(0.02)
os.set_blocking(reading, False)
got, end = b"", time.monotonic() + 1.5
while time.monotonic() < end:
    try:
        got += os.read(reading, 1 << 20)
    except BlockingIOError:
        time.sleep(0.02)
with open(f"{case}/got", "wb") as file:
    file.write(got)
with open(f"{case}/room", "w") as file:
    print(room, file=file)
agent.terminate()
sys.exit(agent.wait())
PY
    background a "$PYTHON" "$CASE/reader.py" "$CASE" "$TENURE" agent --name a --ttl "${TTL}ms" --renew "${RENEW}ms" \
        --settle "${SETTLE}ms" --every "${EVERY}ms" --targets store --log-format json --publish - \
        --poll "exec:exec $POLLER $CASE/polls poll 10 print \$(head -c $1 /dev/zero | tr '\\0' x)"
    holder=$PID
    until_true 10 test -s "$CASE/warden"
    # More than the pipe and the queue of the kernel can have.
    until_true 20 has_polled "$((65536 / $1 + 12))"
    bare_agent b --targets store --poll 'exec:echo 1' --publish "file:$CASE/b.messages"
    all_there 2
    INSTANCE=$(instance_of a)
    "$TENURE" drain "$INSTANCE"
    until_true 20 has_lines "$CASE/b.messages" 3
    touch "$CASE/read"
    until_true 20 test -s "$CASE/room"
    ended 0 "$holder"
    lines=$(wc -l <"$CASE/got")
    echo "$lines lines, $(wc -c <"$CASE/got") bytes, from a pipe of $(cat "$CASE/room")"
    [ "$lines" -ge 2 ] || fail 'nothing was in the pipe, so nothing was tested'
    all_json "$CASE/got"
    line=$(head -n 1 "$CASE/got" | wc -c)
    most=$(cat "$CASE/room")
    if [ "$line" -gt 4096 ]; then most=$((most + line)); fi
    between 'bytes that were read' "$(wc -c <"$CASE/got")" 1 "$most"
    grep -qF '"event":"publish_dropped"' "$CASE/a.err" || fail 'the lines that were dropped were not counted'
    stop b
}
has_polled() { [ "$(starts_of t-1)" -ge "$1" ]; }

# A message that nobody reads does not keep an agent from stopping, nor its target for longer than it takes.
stops_unread() {
    targets 1
    mkfifo "$CASE/pipe"
    exec 9<>"$CASE/pipe"
    timeout 1 dd if=/dev/zero of="$CASE/pipe" bs=4096 count=100 2>/dev/null || :
    TTL=20000
    RENEW=1000
    bare_agent a --targets store --poll 'exec:echo 1' --publish "file:$CASE/pipe"
    until_true 10 said a '"event":"lease_acquired"'
    pause_ms 500
    since=$(now_ms)
    stop a
    took 'ms until it had stopped' "$(($(now_ms) - since))" 0 5000
    said a '"event":"lease_released"' || fail 'the lease was not released'
    said a '"event":"publish_dropped"' || fail 'the message was not counted'
    exec 9>&-
}

# ---- a renewal that fails and then succeeds

# ---- no memory for an event

without_memory() {
    if [ -n "${TENURE_SANITIZED:-}" ]; then return 0; fi # a sanitizer has an allocator of its own
    UNDER="env FAIL_EVENTS=$CASE/no-memory LD_PRELOAD=$FAIL_EVENTS_LIBRARY"
    "$@"
}

# Nothing comes through from the start: neither that there is a target, nor that it is held.
no_target_comes_through() {
    touch "$CASE/no-memory"
    targets 2
    bare_agent a --targets store --poll 'exec:echo 1' --publish -
    until_true 10 holds a 2
    pause_ms 500
    same 'messages without memory' "$(wc -l <"$CASE/a.out")" 0
    rm "$CASE/no-memory"
    until_true 10 grep -qF '"target":"t-1"' "$CASE/a.out"
    until_true 10 grep -qF '"target":"t-2"' "$CASE/a.out"
    said a '"event":"events_lost"' || fail 'nothing was said of what was lost'
    stop a
}

# A target that is known, and of which the loop does not hear that it is held now.
no_event_comes_through() {
    targets 1
    UNDER_A=$UNDER
    UNDER=
    bare_agent b --targets store --weight 100 --poll 'exec:echo 1' --publish -
    until_true 10 has_lines "$CASE/b.out" 1
    UNDER=$UNDER_A
    bare_agent a --targets store --poll 'exec:echo 1' --publish -
    all_there 2
    same 'targets of b' "$(held_by b)" 1
    touch "$CASE/no-memory"
    stop b
    until_true 10 holds a 1
    pause_ms 300
    rm "$CASE/no-memory"
    until_true 10 has_lines "$CASE/a.out" 2
    # It does not miss the end of the agent, either.
    touch "$CASE/no-memory"
    stop a
}

it 'short lines that nobody reads are dropped before the target is handed over' unread 3000
it 'of long lines that nobody reads, no more than the one in the pipe is finished' unread 30000
it 'an agent whose sink hangs drops its message, then releases, then stops' stops_unread
it 'targets that the loop did not hear of are listed again' without_memory no_target_comes_through
it 'a lease that the loop did not hear of is worked under' without_memory no_event_comes_through
finish
