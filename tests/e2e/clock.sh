#!/bin/sh
# Fault 12: a wall clock that jumps by an hour, either way, changes nothing. faketime gives single processes another
# date; the clock that leases run on (CLOCK_BOOTTIME) stays as it is, as it does when somebody sets the date.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/faketime.sh
. "$TENURE_SOURCE/tests/lib/faketime.sh"

# Without this the rest would prove nothing.
date_is_faked() {
    real=$(date +%s)
    faked=$(at +1h date +%s)
    between 'seconds ahead' "$((faked - real))" 3590 3610
    run at +1h "$TENURE" doctor
    out_has "wall clock $(date -u -d '+1 hour' +%Y-%m-%dT%H)"
}

# jump HOLDER OTHER: offsets of the dates of the two.
jump() {
    exits 0 at "$1" "$TENURE" acquire job-1 --ttl 30s --name holder
    token=$OUT
    exits 0 at "$2" "$TENURE" show job-1 --json
    same state "$(field state)" held
    between remaining_ms "$(field remaining_ms)" 20000 30000
    exits 4 at "$2" "$TENURE" acquire job-1
    exits 0 at "$1" "$TENURE" renew job-1 --token "$token"
    exits 4 at "$2" "$TENURE" acquire job-1 --wait 300ms
    exits 0 at "$2" "$TENURE" renew job-1 --token "$token"
    between 'remaining after all' "$(remaining_of job-1)" 20000 30000
    exits 0 at "$1" "$TENURE" release job-1 --token "$token"
    exits 0 at "$2" "$TENURE" acquire job-1
    out_is "$((token + 1))"
}

# expiry OFFSET: the lease still ends when it should.
expiry() {
    exits 0 "$TENURE" acquire job-1 --ttl 1500ms
    start=$(now_ms)
    left=$(remaining_of job-1)
    exits 0 at "$1" "$TENURE" acquire job-1 --wait 20s
    out_is 2
    took 'ms of waiting' "$(($(now_ms) - start))" "$left" "$((left + 2500))"
}

it 'faketime moves the date of the program' date_is_faked
it 'a process an hour ahead sees the lease held and cannot take it' jump +0 +1h
it 'a process an hour behind sees the lease held and cannot take it' jump +0 -1h
it 'a lease taken an hour ahead is the same to the others' jump +1h +0
it 'a lease taken an hour behind is the same to the others' jump -1h +0
it 'two processes two hours apart agree' jump -1h +1h
it 'a waiter an hour ahead enters when the lease ends, not before' expiry +1h
it 'a waiter an hour behind enters when the lease ends, not an hour later' expiry -1h
finish
