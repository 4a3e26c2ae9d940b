#!/bin/sh
# The examples do what their comments say, and a killed holder is followed by another one with a higher token.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

holder=${TENURE_EXAMPLES:?}/holder
guarded_write=$TENURE_EXAMPLES/guarded_write

ttl=1500

has_acquired() {
    grep -q "acquired job-1 with token $2\$" "$CASE/$1.out"
}

# two_holders: alice holds job-1, bob waits.
two_holders() {
    background alice "$holder" "$TENURE_STORE" job-1 alice "$ttl"
    alice=$PID
    until_true 5 has_acquired alice 1
    background bob "$holder" "$TENURE_STORE" job-1 bob "$ttl"
    bob=$PID
    until_true 5 grep -q started "$CASE/bob.out"
}

takeover_after_kill() {
    two_holders
    # For longer than a TTL: the lease lives on renewals.
    sleep 2.5
    same 'the token before' "$(token_of job-1)" 1
    ! grep -q acquired "$CASE/bob.out" || fail 'two holders at a time'
    kill -s KILL "$alice"
    start=$(now_ms)
    left=$(remaining_of job-1)
    until_true 10 has_acquired bob 2
    took 'ms from the kill to the takeover' "$(($(now_ms) - start))" "$left" "$((left + 2000))"
    same 'the token after' "$(token_of job-1)" 2
    case $(holder_of job-1) in
    bob-*) ;;
    *) fail "the holder is $(holder_of job-1)" ;;
    esac
    until_true 5 grep -q 'step 3 of job-1 under token 2' "$CASE/bob.out"
    kill -s TERM "$bob"
    ended 0 "$bob"
}

handover_at_stop() {
    ttl=60000
    two_holders
    start=$(now_ms)
    kill -s TERM "$alice"
    ended 0 "$alice"
    grep -q 'released job-1 with token 1' "$CASE/alice.out"
    until_true 5 has_acquired bob 2
    took 'ms from the signal to the takeover' "$(($(now_ms) - start))" 0 3000
    kill -s TERM "$bob"
    ended 0 "$bob"
    same 'the state' "$(state_of job-1)" free
}

stopped_while_waiting() {
    ttl=60000
    two_holders
    kill -s TERM "$bob"
    ended 0 "$bob"
    grep -q 'stopped while waiting' "$CASE/bob.out"
    same 'the token' "$(token_of job-1)" 1
}

# A holder that was stopped for longer than its lease lasts must find out by itself.
paused_holder() {
    two_holders
    kill -s STOP "$alice"
    until_true 10 has_acquired bob 2
    steps=$(grep -c step "$CASE/alice.out")
    kill -s CONT "$alice"
    ended 1 "$alice"
    same 'steps after the pause' "$(grep -c step "$CASE/alice.out")" "$steps"
    grep -q 'lost job-1 with token 1' "$CASE/alice.out"
    same 'the state' "$(state_of job-1)" held
    same 'the token' "$(token_of job-1)" 2
}

forced_holder() {
    two_holders
    exits 0 "$TENURE" release job-1 --force
    ended 1 "$alice"
    until_true 10 has_acquired bob 2
    kill -s TERM "$bob"
    ended 0 "$bob"
}

one_shot() {
    exits 0 "$guarded_write" "$TENURE_STORE" report "$CASE/report"
    out_is 'written under token 1'
    exits 0 "$guarded_write" "$TENURE_STORE" report "$CASE/report"
    same 'the file' "$(tr '\n' ',' <"$CASE/report")" \
        'token 1 line 1,token 1 line 2,token 1 line 3,token 2 line 1,token 2 line 2,token 2 line 3,'
    same 'the state' "$(state_of report)" free
}

one_shot_held() {
    exits 0 "$TENURE" acquire report --name somebody
    exits 4 "$guarded_write" "$TENURE_STORE" report "$CASE/report"
    err_has 'report is held by somebody-' 'TENURE_E_HELD'
    [ ! -e "$CASE/report" ] || fail 'it wrote without the lease'
}

mistakes() {
    exits 2 "$guarded_write"
    exits 2 "$holder"
    exits 1 "$guarded_write" nonsense report "$CASE/report"
    err_has "'nonsense' is not valid" 'TENURE_E_INVALID'
    exits 1 "$guarded_write" "$TENURE_STORE" report "$CASE/no/such/directory"
    same 'the state' "$(state_of report)" free
    exits 1 "$holder" "$TENURE_STORE" job-1 alice 5
    err_has 'too short'
}

it 'a killed holder is followed at expiry, with a higher token' takeover_after_kill
it 'a stopped holder releases, and the next one enters at once' handover_at_stop
it 'a waiting holder can be stopped' stopped_while_waiting
it 'a holder that was paused beyond its lease does no further step' paused_holder
it 'a forced holder stops, and the next one enters' forced_holder
it 'guarded_write writes under its token and gives the lease back' one_shot
it 'guarded_write does nothing when the lease is held' one_shot_held
it 'the examples tell mistakes' mistakes
finish
