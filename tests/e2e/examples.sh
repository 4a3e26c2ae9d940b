#!/bin/sh
# The examples do what their comments say, and a killed holder is followed by another one with a higher token.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

holder=${TENURE_EXAMPLES:?}/holder
guarded_write=$TENURE_EXAMPLES/guarded_write
worker=$TENURE_EXAMPLES/worker
leader=$TENURE_EXAMPLES/leader
driven=$TENURE_EXAMPLES/driven

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
    for program in "$guarded_write" "$holder" "$worker" "$leader" "$driven"; do exits 2 "$program"; done
    exits 1 "$guarded_write" nonsense report "$CASE/report"
    err_has "'nonsense' is not valid" 'TENURE_E_INVALID'
    exits 1 "$guarded_write" "$TENURE_STORE" report "$CASE/no/such/directory"
    same 'the state' "$(state_of report)" free
    exits 1 "$holder" "$TENURE_STORE" job-1 alice 5
    err_has 'too short'
    exits 1 "$worker" "$TENURE_STORE" alice 3000 'a b'
    exits 1 "$leader" "$TENURE_STORE" 'a b' alice 3000
    exits 1 "$driven" nonsense alice 3000
    err_has "'nonsense' is not valid"
}

# ---- a fleet, an election, a loop

# share_of NAME: how many targets the store says it holds.
share_of() { "$TENURE" ls --json | grep -c "\"instance\":\"$1-" || :; }
shares_are() { [ "$(share_of alice)" -eq "$1" ] && [ "$(share_of bob)" -eq "$2" ]; }
worked_on() { grep -q "worked on $2 under token $3\$" "$CASE/$1.out"; }

fleet_shares() {
    background alice "$worker" "$TENURE_STORE" alice 2000 a b c d
    alice=$PID
    until_true 10 shares_are 4 0
    until_true 10 worked_on alice a 1
    background bob "$worker" "$TENURE_STORE" bob 2000 a b c d
    bob=$PID
    until_true 20 shares_are 2 2
    until_true 5 grep -q 'instance_joined bob-' "$CASE/alice.out"
    same 'targets that alice released' "$(grep -c 'alice: released .* (rebalance)' "$CASE/alice.out")" 2
    kill -s KILL "$bob"
    until_true 20 shares_are 4 0
    kill -s TERM "$alice"
    ended 0 "$alice"
    tail -n 1 "$CASE/alice.out" | grep -q 'alice: stopped'
    shares_are 0 0 || fail 'something is still held'
}

elected() { grep -q "$1: elected with token $2\$" "$CASE/$1.out"; }
election_follows() {
    background alice "$leader" "$TENURE_STORE" cleanup alice 2000
    alice=$PID
    until_true 10 elected alice 1
    background bob "$leader" "$TENURE_STORE" cleanup bob 2000
    bob=$PID
    until_true 5 grep -q started "$CASE/bob.out"
    until_true 5 grep -q 'alice: step 3 under token 1' "$CASE/alice.out"
    # A leader that resigns lets the other one go first, and its last step is before its demotion.
    kill -s USR1 "$alice"
    until_true 10 elected bob 2
    tail -n 1 "$CASE/alice.out" | grep -q 'alice: demoted from the term with token 1 (resigned)'
    # A leader that dies is followed when its lease has expired.
    kill -s KILL "$bob"
    until_true 20 elected alice 3
    kill -s TERM "$alice"
    ended 0 "$alice"
    grep -q 'alice: demoted from the term with token 3 (shutdown)' "$CASE/alice.out"
    exits 0 "$TENURE" show cleanup --namespace leader --json
    same 'the token' "$(field token)" 3
    same 'the state' "$(field state)" free
}

loop_without_thread() {
    background alice "$driven" "$TENURE_STORE" alice 2000 20
    alice=$PID
    until_true 10 grep -q 'held 20, valid 20, lost 0, failed 0, threads 1' "$CASE/alice.out"
    # For longer than a TTL: the loop renews.
    sleep 3
    tail -n 1 "$CASE/alice.out" | grep -q 'held 20, valid 20, lost 0, failed 0, threads 1'
    exits 0 "$TENURE" release job-7 --force
    until_true 10 grep -q 'held 19, valid 19, lost 1, failed 0, threads 1' "$CASE/alice.out"
    kill -s TERM "$alice"
    ended 0 "$alice"
    grep -q 'alice: released everything' "$CASE/alice.out"
    same 'leases that are held' "$("$TENURE" ls --json | grep -c '"state":"held"' || :)" 0
}

# ---- memory

# checked NAME ARGUMENT...: the example under valgrind, in the background.
checked() {
    checked_name=$1
    shift
    background "$checked_name" valgrind --error-exitcode=9 --leak-check=full -q "$@"
}

# One after the other, each until it has worked, and then to its end. The TTL is long: valgrind is slow.
memory_is_clean() {
    if [ -n "${TENURE_SANITIZED:-}" ] || ! command -v valgrind >/dev/null; then
        echo 'there is no valgrind, or a sanitizer has its place'
        return 0
    fi
    exits 0 valgrind --error-exitcode=9 --leak-check=full -q "$guarded_write" "$TENURE_STORE" report "$CASE/report"
    checked holder "$holder" "$TENURE_STORE" job-0 holder 20000
    until_true 30 grep -q 'step 1 of job-0' "$CASE/holder.out"
    stop_checked
    checked leader "$leader" "$TENURE_STORE" cleanup leader 20000
    until_true 30 grep -q 'leader: step 1 under token 1' "$CASE/leader.out"
    stop_checked
    checked driven "$driven" "$TENURE_STORE" driven 20000 50
    until_true 30 grep -q 'held 50, valid 50' "$CASE/driven.out"
    stop_checked
    checked worker "$worker" "$TENURE_STORE" worker 20000 a b
    until_true 30 worked_on worker a 1
    stop_checked
}
stop_checked() {
    kill -s TERM "$PID"
    ended 0 "$PID"
}

it 'a killed holder is followed at expiry, with a higher token' takeover_after_kill
it 'a stopped holder releases, and the next one enters at once' handover_at_stop
it 'a waiting holder can be stopped' stopped_while_waiting
it 'a holder that was paused beyond its lease does no further step' paused_holder
it 'a forced holder stops, and the next one enters' forced_holder
it 'guarded_write writes under its token and releases the lease' one_shot
it 'guarded_write does nothing when the lease is held' one_shot_held
it 'the examples report mistakes' mistakes
it 'workers share the targets, and take over from one that was killed' fleet_shares
it 'a leader that resigns or dies is followed, with a higher token' election_follows
it 'an event loop holds leases without a thread, and notices a forced one' loop_without_thread
it 'valgrind finds nothing in the examples' memory_is_clean
finish
