#!/bin/sh
# tenure guard on SQLite: what passes, what does not, what is said about it; hostile input; how it ends.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/guard.sh
. "$TENURE_SOURCE/tests/lib/guard.sh"

# ---- what passes

current_and_stale() {
    take a
    hand_over a
    take b
    {
        message a 1
        message a 2
        message b 1
        message a 1
        message a 2
    } >in
    exits 0 "$TENURE" guard --in file:in --log-format json
    same 'what passed' "$OUT" "$(message a 2 && message b 1 && message a 2)"
    grep -c '"event":"stale_refused"' err | grep -qx 2
    err_has '"message":1,"target":"a","token":1,"current":2,"reason":"stale"' \
        '"event":"guard_stopped"' '"passed":3,"stale":2,"ungranted":0,"unconfirmed":0,"incomplete":0,"malformed":0'
    all_json "$CASE/err"
}

never_granted() {
    take a
    {
        message a 2
        message nobody-leased-it 1
        message a 1
    } | guard_text
    same 'what passed' "$(cat out)" "$(message a 1)"
    grep -q 'target=a token=2 current=1 reason="never granted"' err
    grep -q 'target=nobody-leased-it token=1 current=0 reason="never granted"' err
}

bytes_as_they_came() {
    take a
    printf '  { "_version" : 1 ,\t"data":{"\\u00e9":"é\\/"},"scene_id":"a"}  \r\n' >in
    printf '{"data":[1,2.50,1E2],"target":"a","_version":1}' >>in # and no newline at the end
    exits 0 "$TENURE" guard --in in --out file:passed
    out_is ''
    cmp in passed
    exits 0 "$TENURE" guard --in in --out file:passed # appends
    cat in in | cmp - passed
}

order_is_kept() {
    for i in 1 2 3 4 5 6 7 8 9; do take "t-$i"; done
    i=0
    while [ "$i" -lt 3000 ]; do
        i=$((i + 1))
        printf '{"target":"t-%d","_version":%d,"n":%d}\n' $((i % 9 + 1)) $((i % 5 / 4 + 1)) "$i"
    done >in
    exits 0 "$TENURE" guard --in in --log-level error
    grep '_version":1,' in >expected
    cmp out expected
}

its_own_fields() {
    exits 0 "$TENURE" acquire scene-01 --namespace scenes
    printf '{"id":"scene-01","fence":1,"_version":"x","target":"other"}\n' >in
    exits 0 "$TENURE" guard --in in --namespace scenes --id-field id --token-field fence
    same 'what passed' "$OUT" "$(cat in)"
    # The seed's message.
    printf '{ "scene_id": "scene-01", "data": { "objects": [] }, "_version": 1 }\n' >in
    exits 0 "$TENURE" guard --in in --namespace scenes
    same 'what passed' "$OUT" "$(cat in)"
    exits 0 "$TENURE" guard --in in
    out_is ''
    err_has 'never granted'
}

# ---- what is not even asked about

no_token_that_could_be_one() {
    take a
    for token in 0 -1 1.0 1e0 '"1"' null true '[1]' 9007199254740992 9007199254740993 18446744073709551617 NaN 01; do
        printf '{"target":"a","_version":%s}\n' "$token"
    done >in
    printf '{"target":"a"}\n{"_version":1}\n{"target":"","_version":1}\n{"target":7,"_version":1}\n{"target":"a b","_version":1}\n' >>in
    printf '{"target":"a","scene_id":"b","_version":1}\n{"target":null,"scene_id":"a","_version":1}\n' >>in
    printf '{"target":"%0300d","_version":1}\n' 0 >>in
    printf '{"target":"a","_version":1,"_version":2}\n{"target":"a","target":"b","_version":1}\n' >>in
    printf '{"target":"a\\u0000","_version":1}\n[{"target":"a","_version":1}]\n"a"\n{"target":"a","_version":1}}\n' >>in
    lines=$(wc -l <in)
    exits 0 "$TENURE" guard --in in
    out_is ''
    same 'refusals in the log' "$(grep -Ec 'event=(stale_refused|message_dropped)' err)" "$lines"
    err_has 'passed=0 stale=0 ungranted=0 unconfirmed=0' 'no token' 'no target' 'differ'
}

# Garbage of every kind between good lines: all of the good ones come through, and nothing else.
garbage_between() {
    take a
    "$PYTHON" - >in <<'END'
import random, sys
random.seed(4)
good = b'{"target":"a","_version":1,"n":%d}\n'
out = sys.stdout.buffer
for i in range(400):
    kind = random.randrange(7)
    if kind == 0:
        line = bytes(random.randrange(256) for _ in range(random.randrange(200)))
    elif kind == 1:
        line = (good % i)[: random.randrange(1, 25)]
    elif kind == 2:
        line = b'{"target":"a","_version":1,"n":' + b'[' * random.randrange(1, 5000)
    elif kind == 3:
        line = bytearray(good % i)
        line[random.randrange(len(line) - 1)] ^= 0x80
    elif kind == 4:
        line = b'\0' * random.randrange(1, 100)
    elif kind == 5:
        line = b'{"target":"a","_version":1,"s":"' + b'x' * random.randrange(70000) 
    else:
        line = b'\xff\xfe{"target":"a","_version":1}'
    out.write(bytes(line).replace(b'\n', b' ').replace(b'\r', b' ') + b'\n')
    out.write(good % i)
END
    exits 0 "$TENURE" guard --in in --log-level error
    grep -a '^{"target":"a","_version":1,"n":[0-9]*}$' in >expected
    cmp out expected
    same 'lines that passed' "$(wc -l <out)" 400
}

too_long() {
    take a
    "$PYTHON" - >in <<'END'
def line(size):
    start, end = '{"target":"a","_version":1,"s":"', '"}'
    return start + 'x' * (size - len(start) - len(end)) + end
for size in (1 << 20, (1 << 20) + 1, 3 << 20, 100):
    print(line(size))
print(line(5 << 20), end='')
END
    exits 0 "$TENURE" guard --in in --out passed --log-format json
    same 'sizes that passed' "$(awk '{ printf "%d ", length($0) }' passed)" '1048576 100 '
    err_has '"message":2,"reason":"longer than 1 MiB"' '"message":3,"reason":"longer' '"message":5,"reason":"longer' \
        '"passed":2' '"malformed":3'
}

nothing_at_all() {
    exits 0 "$TENURE" guard --in /dev/null
    out_is ''
    printf '\n \r\n\t\n' >in
    exits 0 "$TENURE" guard --in in
    out_is ''
    err_has 'passed=0' 'malformed=0'
}

# ---- while it runs

# The holder changes while the guard is there: it hears of that by itself.
holder_is_replaced() {
    take a
    guard_start
    say a 1
    passed_is 1
    hand_over a
    until_refused a 1
    say a 2
    until_true 10 grep -q '"_version":2' guard.out
    lines=$(grep -c . guard.out)
    say a 1
    say a 2
    passed_is $((lines + 1))
    guard_ends
}

# Each message is passed on while the input is still open, not when there is enough for a block.
messages_do_not_wait() {
    take a
    guard_start
    for i in 1 2 3; do
        begin=$(now_ms)
        say a 1
        passed_is "$i"
        took 'ms for a message' "$(($(now_ms) - begin))" 0 1000
    done
    guard_ends
}

stopped_by_a_signal() {
    for signal in TERM HUP; do # SIGINT is ignored in the background of a shell
        rm -f pipe
        take "a-$signal"
        guard_start
        say "a-$signal" 1
        passed_is 1
        printf '{"target":"a-%s","_ver' "$signal" >&3 # half a line
        kill -s "$signal" "$GUARD"
        ended 0 "$GUARD"
        same 'what passed' "$(cat guard.out)" "$(message "a-$signal" 1)"
        grep -q 'event=guard_stopped.* passed=1' guard.err
        exec 3>&-
    done
}

reader_goes_away() {
    take a
    STATUS=0
    { yes "$(message a 1)" | "$TENURE" guard --log-level error 2>err || echo "$?" >code; } | head -n 3 >out
    same 'what passed' "$(wc -l <out)" 3
    same 'the exit code' "$(cat code)" 1
    same 'what was said' "$(cat err)" ''
}

reader_is_stuck() {
    take a
    mkfifo out.pipe
    background reader sh -c 'exec 3<out.pipe; exec sleep 30'
    yes "$(message a 1)" | head -n 20000 >in
    background guard "$TENURE" guard --in in --out out.pipe
    GUARD=$PID
    let_run 1000
    begin=$(now_ms)
    kill -TERM "$GUARD"
    ended 1 "$GUARD"
    took 'ms until it has ended' "$(($(now_ms) - begin))" 500 5000
    grep -q 'stopped while the output was not read' guard.err
}

full_disk() {
    take a
    message a 1 >in
    exits 1 sh -c '"$TENURE" guard --in in >/dev/full'
    err_has 'cannot write the output'
}

agents_messages() {
    printf 'a\nb\n' >targets
    mkfifo pipe
    background guard "$TENURE" guard --in pipe
    GUARD=$PID
    background agent "$TENURE" agent --targets file:targets --poll 'exec:echo 1' --every 100ms --ttl 3s --renew 500ms \
        --settle 100ms --publish file:pipe
    agent=$PID
    until_true 20 has_lines guard.out 10
    kill -TERM "$agent"
    ended 0 "$agent"
    ended 0 "$GUARD"
    ! grep -q stale_refused guard.err
    grep -q 'stale=0' guard.err
}

mistakes() {
    exits 2 "$TENURE" guard a
    exits 2 "$TENURE" guard --on-expired perhaps
    exits 2 "$TENURE" guard --cache-ttl 0s
    exits 2 "$TENURE" guard --cache-ttl 5ms </dev/null
    exits 2 "$TENURE" guard --in http://broker/topic
    err_has "'-', file:PATH or mqtt://HOST/TOPIC"
    exits 2 "$TENURE" guard --token-field ''
    exits 2 "$TENURE" guard --store memory:
    exits 1 "$TENURE" guard --in file:no/such/file
    err_has 'no/such/file'
    exits 1 "$TENURE" guard --in /dev/null --out file:no/such/file
    message a 1 >in
    exits 2 "$TENURE" guard --in in --out in
    err_has 'same file'
    exits 0 "$TENURE" guard --help
    out_has '--cache-ttl' '--on-expired' 'stale_refused'
}

it 'current messages pass; stale ones do not, and the log has both tokens' current_and_stale
it 'a token that was never granted does not pass' never_granted
it 'messages are passed on byte for byte' bytes_as_they_came
it 'messages keep their order, across batches' order_is_kept
it 'target and token are found where they are said to be' its_own_fields
it 'messages without a usable target or token are refused' no_token_that_could_be_one
it 'garbage is dropped, and nothing else' garbage_between
it 'a line of 1 MiB passes, a longer one is dropped' too_long
it 'no messages are no problem' nothing_at_all
it 'a change of hands is heard of without a message' holder_is_replaced
it 'a message is passed on when it comes' messages_do_not_wait
it 'a signal ends it with the last complete line' stopped_by_a_signal
it 'a reader that goes away ends it' reader_goes_away
it 'a reader that takes nothing does not keep it from ending' reader_is_stuck
it 'output that cannot be written is an error' full_disk
it 'the messages of an agent pass' agents_messages
it 'mistakes are told' mistakes
finish
