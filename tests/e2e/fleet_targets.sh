#!/bin/sh
# Targets that come, go, pause and change while agents run: from the store's registry and from a file. Each takes effect
# within a second.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# quiet TARGET: it was polled before; and for three seconds from a second after the mark it is not.
quiet_since() {
    pause_ms 900
    mark "$2-quiet"
    pause_ms 1500
    if polled "$1" "$2-quiet"; then fail "$1 is still polled"; fi
}

# within_a_second COMMAND...
within_a_second() {
    begin=$(boot_ms)
    until_true 5 "$@"
    took "ms until: $*" "$(($(boot_ms) - begin))" 0 1000
}

store_targets() {
    EVERY=100
    LASTS=20
    TTL=4000 # nothing here may wait for an expiry
    RENEW=1000
    targets 3
    for name in a b; do agent $name; done
    until_true 10 all_polled
    until_true 5 spread 1 2 a b
    mark add
    "$TENURE" target add new
    within_a_second polled new add
    mark pause
    "$TENURE" target pause t-1
    quiet_since t-1 pause
    soon_true 3 is_free t-1
    mark resume
    "$TENURE" target resume t-1
    within_a_second polled t-1 resume
    mark remove
    token=$(token_of t-2)
    "$TENURE" target rm t-2
    quiet_since t-2 remove
    mark again
    "$TENURE" target add t-2
    within_a_second polled t-2 again
    token_is_above t-2 "$token" || fail 'the token did not grow over removal'
    halt a b
    sound --polls 50
    said a '"target":"t-1"' '"reason":"paused"' || said b '"target":"t-1"' '"reason":"paused"' ||
        fail 'the pause is not logged as one'
    said a '"reason":"removed"' || said b '"reason":"removed"' || fail 'the removal is not logged'
}
is_free() { [ "$(state_of "$1")" = free ]; }

changed_at_runtime() {
    "$TENURE" target add t-1 --exec 'echo 1' --every 100ms
    bare_agent a --targets store --poll spec --trust-targets --publish -
    until_true 10 grep -q '"data":1}' a.out
    "$TENURE" target add t-1 --exec 'echo 2' --every 100ms
    within_a_second grep -q '"data":2}' a.out
    # Another interval: from ten a second to none for a minute, and back.
    "$TENURE" target add t-1 --exec 'echo 3' --every 1m
    pause_ms 1000
    lines=$(wc -l <a.out)
    pause_ms 1000
    same 'messages' "$(wc -l <a.out)" "$lines"
    "$TENURE" target add t-1 --exec 'echo 4' --every 100ms
    within_a_second grep -q '"data":4}' a.out
    stop a
}

# Whoever registers targets does not make an agent start one command after the other.
shortest_interval() {
    "$TENURE" target add t-1 --every 1ms
    began=$(now_ms)
    bare_agent a --targets store --poll exec:true --publish -
    until_true 20 grep -q '"ok":true' a.out
    pause_ms 2000
    most=$((($(now_ms) - began) / 50 + 2))
    polls=$(wc -l <a.out)
    stop a
    between 'polls' "$polls" 2 "$most"
}

# A target that is removed and added again while its poll runs is polled on afterwards.
removed_and_added_in_a_poll() {
    LASTS=1500
    targets 1
    agent a
    until_true 10 all_polled
    "$TENURE" target rm t-1
    pause_ms "$1"
    "$TENURE" target add t-1
    mark added
    until_true 8 polled t-1 added
    kill -TERM "$(warden_of a)"
    stop a
    sound --polls 2
}

# file_agent NAME...
file_agents() {
    for name in "$@"; do
        bare_agent "$name" --targets "file:$CASE/targets/list" --poll "exec:exec $POLLER $CASE/polls poll 20" --every 100ms
    done
}

file_targets() {
    TTL=4000
    RENEW=1000
    mkdir targets
    printf '# a comment\n\nt-1\n  t-2  \n{"id":"t-3","every":"50ms"}\n{"id":"off","paused":true}\n' >targets/list
    TARGETS=t-1,t-2,t-3
    file_agents a b
    until_true 10 all_polled
    # Added at the end.
    mark add
    echo t-4 >>targets/list
    within_a_second polled t-4 add
    # Replaced by rename, as editors and deployments do: one paused, one gone, one resumed, one new.
    mark replace
    printf '{"id":"t-1","paused":true}\nt-2\nt-3\n{"id":"off"}\nnew\n' >targets/next
    mv targets/next targets/list
    within_a_second polled new replace
    within_a_second polled off replace
    quiet_since t-1 replace
    if polled t-4 replace-quiet; then fail 't-4 is still polled'; fi
    # Gone for a moment: what was there stands.
    rm targets/list
    pause_ms 500
    mark gone
    soon_true 3 polled t-2 gone
    printf 't-1\n' >targets/list
    mark back
    within_a_second polled t-1 back
    quiet_since t-2 back
    halt a b
    sound --polls 50
    if polled off && ! polled off replace; then fail 'a paused target was polled'; fi
}

bad_lines() {
    mkdir targets
    cat >targets/list <<'LIST'
good-1
bad id with blanks
{"id":"good-2"}
{"id":"bad","every":"soon"}
{"id":
{"id":"../up"}
{"id":"x","colour":"red"}
good-3
LIST
    TARGETS=good-1,good-2,good-3
    file_agents a
    until_true 10 all_polled
    for line in 2 4 5 6 7; do
        until_true 5 said a '"event":"target_refused"' "\"line\":$line,"
    done
    for line in 1 3 8; do
        if said a '"event":"target_refused"' "\"line\":$line,"; then fail "line $line is reported"; fi
    done
    same 'reports' "$(times_said a '"event":"target_refused"')" 5
    # Read again: told once.
    echo good-4 >>targets/list
    until_true 5 polled good-4
    kill -HUP "$WARDEN"
    pause_ms 300
    same 'reports after reading again' "$(times_said a '"event":"target_refused"')" 5
    # A new mistake is told.
    echo 'bad again' >>targets/list
    soon_true 3 said a '"event":"target_refused"' '"line":10,'
    stop a
    sound
}

missing_file() {
    run "$TENURE" agent --targets "file:$CASE/nowhere" --poll 'exec:true'
    same 'exit code' "$STATUS" 2
    err_has 'nowhere'
    run "$TENURE" agent --targets "file:$CASE/no/where" --poll 'exec:true'
    [ "$STATUS" -ne 0 ] || fail 'a missing directory is no problem'
}

# What is not a file, or too large a one, is told at the start; later what was read before stands, and a file that comes is
# taken.
not_a_file() {
    mkfifo fifo
    truncate -s 300M large
    for each in "fifo=is a FIFO" ".=is a directory" "/dev/null=is a device" 'large=at most 256 MiB'; do
        case $each in /*) path=${each%%=*} ;; *) path=$CASE/${each%%=*} ;; esac
        run timeout 20 "$TENURE" agent --targets "file:$path" --poll 'exec:true'
        same "exit code for $path" "$STATUS" 2
        err_has "${each#*=}"
    done
    mkdir targets
    echo t-1 >targets/list
    TARGETS=t-1
    file_agents a
    until_true 10 all_polled
    mkfifo targets/next
    mv targets/next targets/list
    until_true 5 said a '"event":"target_source_failed"' 'it is a FIFO'
    rm targets/list
    mkdir targets/list
    mark directory
    until_true 5 polled t-1 directory
    rmdir targets/list
    printf 't-1\nt-2\n' >targets/next
    mv targets/next targets/list
    until_true 5 polled t-2
    until_true 5 said a '"event":"target_source_ok"' '"count":2'
    stop a
    sound
}

# A worker that is killed at such a moment is followed by others, until one can read the file.
killed_without_a_file() {
    mkdir targets
    echo t-1 >targets/list
    TARGETS=t-1
    file_agents a
    until_true 10 all_polled
    mkfifo targets/next
    mv targets/next targets/list
    worker=$(worker_of a)
    kill -KILL "$worker"
    until_true 10 said a '"event":"worker_crashed"' '"exit_status":2'
    mark readable
    echo t-1 >targets/next
    mv targets/next targets/list
    until_true 10 polled t-1 readable
    stop a
    sound
}

# hanging_agent NAME: its file does not answer while there is targets/list.hangs.
hanging_agent() {
    UNDER="env LD_PRELOAD=${HUNG_OPEN_LIBRARY:?the path of the library} HUNG_FILE=$CASE/targets/list"
    file_agents "$1"
}

# The thread that reads the file hangs; nothing else does.
hung_file() {
    RENEW=400
    mkdir targets
    echo t-1 >targets/list
    TARGETS=t-1
    hanging_agent a
    until_true 10 all_polled
    : >targets/list.hangs
    printf 't-1\nt-2\n' >targets/list
    until_true 10 said a '"event":"target_source_failed"' 'does not answer'
    mark hung
    until_true 5 polled t-1 hung
    pause_ms $((2 * TTL))
    mark still
    until_true 5 polled t-1 still
    same 'terms of t-1' "$(times_said a '"event":"lease_acquired"')" 1
    rm targets/list.hangs
    until_true 5 polled t-2
    until_true 5 said a '"event":"target_source_ok"'
    # It stops in time while its file hangs, and starts.
    : >targets/list.hangs
    printf 't-1\n' >targets/list
    pause_ms 200
    begin=$(boot_ms)
    stop a
    took 'ms until a had stopped' "$(($(boot_ms) - begin))" 0 5000
    is_free t-1 || fail 't-1 is not free'
    hanging_agent b
    until_true 20 said b '"event":"target_source_failed"' 'does not answer'
    rm targets/list.hangs
    until_true 10 said b '"event":"lease_acquired"' '"target":"t-1"'
    stop b
    sound
}

# The registry can hold what an agent cannot use: the rest go on.
unusable_target() {
    "$TENURE" target add t-1 --url 'nonsense://x'
    "$TENURE" target add t-2 --url 'http://127.0.0.1:1/'
    "$TENURE" target add t-3 --exec 'echo 3'
    bare_agent a --targets store --poll spec --trust-targets --publish -
    until_true 10 grep -q '"data":3}' a.out
    until_true 5 grep -q '"target":"t-1".*"ok":false' a.out
    until_true 5 grep -q '"target":"t-2".*"ok":false' a.out
    pause_ms 1500
    stop a
    # Reported with growing distance, not at each poll.
    between 'reports of t-1' "$(grep -c '"event":"poll_failed".*"target":"t-1"' a.err)" 1 5
    repeated 'polls of t-1' "$(grep -c '"target":"t-1"' a.out)" 5 100 200
}

# More targets than an agent is willing to know: refused at the start, and left to others later.
too_many_targets() {
    targets 5
    for source in store "file:$CASE/list"; do
        printf 't-%s\n' 1 2 3 4 5 >list
        run timeout 20 "$TENURE" agent --targets "$source" --poll 'exec:true' --max-targets 4
        same "exit code for $source" "$STATUS" 2
        err_has 'more targets than the 4' '--max-targets'
        for target in t-1 t-5; do is_free $target || fail "$target was acquired"; done
        bare_agent a --targets "$source" --poll "exec:exec $POLLER $CASE/polls poll 20" --every 100ms --max-targets 5
        mark start
        until_true 10 polled t-5 start
        if [ "$source" = store ]; then "$TENURE" target add t-6; else echo t-6 >>list; fi
        until_true 10 said a 't-6' '"error":'
        mark more
        until_true 5 polled t-5 more
        stop a
        if polled t-6; then fail 't-6 is polled'; fi
        "$TENURE" target rm t-6 >/dev/null 2>&1 || :
    done
    sound
}

it 'targets added, paused, resumed and removed in the store take effect within a second' store_targets
it 'a changed command and interval take effect within a second' changed_at_runtime
it 'a target that wants to be polled every millisecond is polled every 50 ms' shortest_interval
it 'a target removed and added again while it is polled is polled on' removed_and_added_in_a_poll 0
it 'a target removed and a little later added again while it is polled is polled on' removed_and_added_in_a_poll 400
it 'a file of targets is read again when it changes or is replaced' file_targets
it 'a bad line is reported once, with its number, and the rest go on' bad_lines
it 'a missing file of targets is told at the start' missing_file
it 'something that is not a file of targets is reported, and the known targets stay' not_a_file
it 'a worker that is killed while the file of targets cannot be read is followed by one that can' killed_without_a_file
if [ -z "${TENURE_SANITIZED:-}" ]; then
    it 'a file system that hangs stops neither polls nor the end of an agent' hung_file
fi
it 'more targets than --max-targets are refused at the start, and left to others later' too_many_targets
it 'targets that cannot be polled fail by themselves, and are not a line a poll' unusable_target
finish
