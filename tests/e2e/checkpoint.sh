#!/bin/sh
# Checkpoints: the verb for scripts, and a fleet that goes through streams of numbers while its agents are killed at
# random. What the pollers found as their checkpoint is all that the judge reads. `--seconds N`: so long (default 12).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

SECONDS_OF_KILLS=12
if [ "${1:-}" = --seconds ]; then SECONDS_OF_KILLS=$2; fi

# ---- the verb

# take TARGET: acquires it; TOKEN is its token. A store that is new lets nobody in for a TTL.
take() {
    TOKEN=$("$TENURE" acquire "$1" --ttl "${2:-60s}" --wait 60s 2>>"$CASE/take.err") || fail "cannot acquire $1"
}

writes_and_prints() {
    take job
    exits 1 "$TENURE" checkpoint job
    err_has 'job has no checkpoint'
    exits 0 "$TENURE" checkpoint job --token "$TOKEN" 'page 7'
    out_is ''
    exits 0 "$TENURE" checkpoint job
    out_is 'page 7'
    printf 'line 1\nline 2\n' | "$TENURE" checkpoint job --token "$TOKEN" - || fail 'not written from standard input'
    exits 0 "$TENURE" checkpoint job
    out_is "$(printf 'line 1\nline 2')"
    exits 0 "$TENURE" release job --token "$TOKEN"
    exits 0 "$TENURE" checkpoint job
    out_is "$(printf 'line 1\nline 2')"
}

refuses_stale() {
    take job
    first=$TOKEN
    exits 0 "$TENURE" checkpoint job --token "$first" old
    exits 0 "$TENURE" release job --token "$first"
    exits 5 "$TENURE" checkpoint job --token "$first" 'too late'
    err_has "job is not held with token $first; nothing was written"
    take job
    exits 5 "$TENURE" checkpoint job --token "$first" stale
    err_has "token $first of job is stale" "with token $TOKEN"
    exits 0 "$TENURE" checkpoint job
    out_is old
    exits 0 "$TENURE" checkpoint job --token "$TOKEN" new
    exits 0 "$TENURE" checkpoint job
    out_is new
}

goes_with_forget() {
    take job
    exits 0 "$TENURE" checkpoint job --token "$TOKEN" x
    exits 0 "$TENURE" checkpoint job --token "$TOKEN" ''
    exits 1 "$TENURE" checkpoint job
    exits 0 "$TENURE" checkpoint job --token "$TOKEN" y
    exits 0 "$TENURE" release job --token "$TOKEN"
    exits 0 "$TENURE" forget job
    exits 1 "$TENURE" checkpoint job
    err_has 'neither registered nor ever leased'
    take job
    exits 1 "$TENURE" checkpoint job
}

refuses_wrong_usage() {
    take job
    long=$(printf '%04096d' 7)
    exits 0 "$TENURE" checkpoint job --token "$TOKEN" "$long"
    exits 0 "$TENURE" checkpoint job
    out_is "$long"
    exits 2 "$TENURE" checkpoint job --token "$TOKEN" "${long}8"
    err_has 'at most 4096 bytes, and this has 4097'
    head -c 5000 /dev/zero | tr '\0' x >"$CASE/large"
    "$TENURE" checkpoint job --token "$TOKEN" - <"$CASE/large" 2>"$CASE/large.err" && fail 'cut off'
    printf 'a\0b' >"$CASE/nul"
    "$TENURE" checkpoint job --token "$TOKEN" - <"$CASE/nul" 2>"$CASE/nul.err" && fail 'a NUL was taken'
    grep -F 'UTF-8 without a NUL' "$CASE/nul.err" || fail 'it does not say why'
    exits 2 "$TENURE" checkpoint job --token "$TOKEN" "$(printf '\377')"
    exits 2 "$TENURE" checkpoint job value
    err_has 'needs --token T'
    exits 2 "$TENURE" checkpoint
    exits 2 "$TENURE" checkpoint job --token "$TOKEN"
    exits 1 "$TENURE" checkpoint unknown
    exits 0 "$TENURE" checkpoint job
    out_is "$long"
}

# ---- a fleet

# A poll: what it found goes to the log, in one write, and it returns the next number.
counter() {
    cat >"$CASE/count" <<'END'
n=${TENURE_CHECKPOINT:-0}
echo "$TENURE_TARGET $TENURE_TOKEN $n $TENURE_INSTANCE" >>"$1"
echo "{\"n\":$((n + 1)),\"_checkpoint\":\"$((n + 1))\"}"
END
}
counting_agent() {
    bare_agent "$1" --targets store --poll "exec:exec /bin/sh $CASE/count $CASE/found" --publish "file:$CASE/messages"
}

# streams_are_sound: of each target, in the order in which its polls began, the numbers never go down and never leap: each
# was written once, from the one before. What is in the store in the end is the last.
streams_are_sound() {
    awk '
        ($1 in last) && $3 < last[$1] { print "went back from " last[$1] ": " $0; bad = 1 }
        ($1 in last) && $3 > last[$1] + 1 { print "leapt from " last[$1] ": " $0; bad = 1 }
        !($1 in last) && $3 != 0 { print "did not begin at 0: " $0; bad = 1 }
        ($1 in token) && $2 < token[$1] { print "an older token: " $0; bad = 1 }
        { hands += ($1 in token) && $2 != token[$1]; last[$1] = $3; token[$1] = $2; polls++ }
        END {
            for (target in last) { targets++; sum += last[target] }
            print targets " targets, " polls " polls, " sum " numbers, " hands + 0 " changes of hands"
            if (bad || polls < 12 || sum < 10) exit 1
        }' "$CASE/found" || fail 'the streams are not as they have to be'
    awk '{ last[$1] = $3 } END { for (target in last) print target, last[target] }' "$CASE/found" >"$CASE/last"
    while read -r target number; do
        kept=$("$TENURE" checkpoint "$target") || fail "$target has no checkpoint"
        [ "$kept" -eq "$number" ] || [ "$kept" -eq $((number + 1)) ] || fail "$target: $kept is kept, and $number was found"
    done <"$CASE/last"
}

agents_go_on() {
    counter
    "$TENURE" target add s-1 s-2
    counting_agent a
    until_true 30 grep -q 's-1 [0-9]* 3 ' "$CASE/found"
    stop a
    counting_agent b
    until_true 30 grep -q 's-1 [0-9]* 8 ' "$CASE/found"
    stop b
    streams_are_sound
    grep -F '"_checkpoint":"2"' "$CASE/messages" || fail 'the message does not have it'
}

# A number that no integer holds makes no difference to a text, but would change another value.
agents_with_large_numbers() {
    cat >"$CASE/count" <<'END'
case $TENURE_TARGET in
text) echo '{"id":12345678901234567890,"_checkpoint":"7"}' ;;
number) echo '{"id":12345678901234567890,"_checkpoint":{"n":12345678901234567890}}' ;;
twice) echo '{"id":1,"id":2,"_checkpoint":"7"}' ;;
esac
END
    "$TENURE" target add text number twice
    counting_agent a
    until_true 30 is_kept
    until_true 30 grep -q 'checkpoint_failed.*"target":"number".*too large' a.err
    until_true 30 grep -q 'checkpoint_failed.*"target":"twice".*not one JSON object' a.err
    stop a
    exits 1 "$TENURE" checkpoint number
}
is_kept() { [ "$("$TENURE" checkpoint text 2>/dev/null)" = 7 ]; }

agents_are_killed() {
    counter
    "$TENURE" target add s-1 s-2 s-3 s-4 s-5
    for name in a b c; do counting_agent $name; done
    until_true 30 grep -q 's-5 [0-9]* 1 ' "$CASE/found"
    end=$(($(date +%s) + SECONDS_OF_KILLS))
    round=0
    while [ "$(date +%s)" -lt "$end" ]; do
        round=$((round + 1))
        victim=$(printf 'a\nb\nc\n' | shuf -n 1)
        case $((round % 3)) in
        0) # its worker alone: its warden gives the leases back
            kill -KILL "$(worker_of "$victim")" 2>/dev/null || :
            ;;
        1) # it sleeps for longer than its leases, and goes on
            sleeper=$(worker_of "$victim")
            kill -STOP "$sleeper" 2>/dev/null || :
            pause_ms $((TTL + 300))
            kill -CONT "$sleeper" 2>/dev/null || :
            ;;
        2)
            kill_host "$victim"
            counting_agent "$victim"
            ;;
        esac
        pause_ms "$(shuf -i 100-900 -n 1)"
    done
    halt a b c
    streams_are_sound
    [ "$round" -ge 3 ] || fail "only $round times something was killed"
}

it 'a checkpoint is written under the token and printed' on_store writes_and_prints
it 'a stale token writes nothing' on_store refuses_stale
it 'it goes when the target is forgotten' on_store goes_with_forget
it 'what is too long, not text or wrongly used is refused' on_store refuses_wrong_usage
it 'an agent goes on where another has stopped' on_store agents_go_on
it 'a checkpoint that an agent cannot keep is reported' on_store agents_with_large_numbers
it 'agents that are killed process every number of a stream once' on_store agents_are_killed
finish
