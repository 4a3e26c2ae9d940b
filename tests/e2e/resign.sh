#!/bin/sh
# tenure resign: asking the leader of a role to hand it over, and taking it away.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

# Leases so long that nothing of this can come of their end, nor of a renewal.
long() {
    TTL=30000
    RENEW=10000
}
unchanged() {
    pause_ms 700
    same 'terms' "$(terms)" 1
    same 'the leader' "$(role_is instance)" "$INSTANCE"
}

gracefully() {
    long
    first_leader a b
    old=$INSTANCE
    mark resign
    exits 0 "$TENURE" resign "$ROLE" --from "$INSTANCE"
    err_has "$INSTANCE" 'asked to hand over'
    handed_over resign 0 2000
    until_true 5 said "$(name_of "$old")" '"event":"lease_released"' '"reason":"resigned"'
    # It stays a candidate: and when it is its turn, it leads.
    mark back
    exits 0 "$TENURE" resign "$ROLE" --from "$INSTANCE"
    handed_over back 0 2000
    same 'who leads again' "$INSTANCE" "$old"
    halt a b
    never_two 3
}

# The work ends first, however long that takes.
work_ends_first() {
    long
    KILL_AFTER=20000
    RESTART=never
    elect a -- sh -c 'trap "sleep 1; echo ended; exit 0" TERM; echo ready; while :; do sleep 0.02; done'
    until_true 10 grep -q ready "$CASE/a.out"
    candidate b
    until_true 10 said b '"event":"lease_acquire_failed"'
    instance=$(role_is instance)
    began=$(boot_ms)
    exits 0 "$TENURE" resign "$ROLE" --from "$instance" --wait 20s
    took 'ms until it had handed over' "$(($(boot_ms) - began))" 900 4000
    err_has 'no longer leads'
    grep -q ended "$CASE/a.out" || fail 'the role was handed over before the command had ended'
    until_true 5 leads b
    still_candidates a
    stop a
    stop b
}

# --wait that is too short: the request stands.
wait_elapses() {
    long
    KILL_AFTER=20000
    elect a -- sh -c 'trap "sleep 2; exit 0" TERM; echo ready; while :; do sleep 0.02; done'
    until_true 10 grep -q ready "$CASE/a.out"
    instance=$(role_is instance)
    began=$(boot_ms)
    exits 4 "$TENURE" resign "$ROLE" --from "$instance" --wait 400ms
    took 'ms that it waited' "$(($(boot_ms) - began))" 350 1800
    err_has "$instance" '--force'
    until_true 10 said a '"event":"lease_released"' '"reason":"resigned"'
    halt a
}

# Alone, it lets others go first for a TTL, and then leads again.
alone() {
    TTL=2000
    RENEW=500
    first_leader a
    mark resign
    exits 0 "$TENURE" resign "$ROLE" --from "$INSTANCE" --wait 5s
    until_true 10 has_terms 2
    pause=$(awk '$3 == "mark" { at = $1 } $3 == "start" { last = $1 } END { printf "%d\n", (last - at) / 1000 }' "$LOG")
    took 'ms until it led again' "$pause" 1500 4500
    stop a
    never_two 2
}

wrong_instance() {
    first_leader a
    exits 4 "$TENURE" resign "$ROLE" --from someone-1700000000000000000-00000000
    err_has "$INSTANCE"
    unchanged
    exits 1 "$TENURE" resign "$ROLE" --from someone-1700000000000000000-00000000 --force
    err_has someone --observe
    unchanged
    exits 1 "$TENURE" resign "$ROLE" --from someone-1700000000000000000-00000000 --force --now
    unchanged
    works_since_now
    stop a
    never_two 1
}
works_since_now() {
    mark now
    soon_true 3 works_since now
}

nobody() {
    exits 1 "$TENURE" resign "$ROLE" --from a-1700000000000000000-00000000
    err_has 'nobody leads'
    # Neither does one that has led.
    first_leader a
    stop a
    exits 1 "$TENURE" resign "$ROLE" --from "$INSTANCE"
    err_has 'nobody leads'
    exits 1 "$TENURE" resign "$ROLE" --from "$INSTANCE" --force
    exits 1 "$TENURE" resign "$ROLE" --from "$INSTANCE" --wait 1s
}

# Taken away: the command ends before the lease, also when it does not want to; others enter when the lease has ended.
forced() {
    KILL_AFTER=60000
    POLL_OPTIONS='stubborn detach'
    first_leader a b
    old=$INSTANCE
    mark forced
    exits 0 "$TENURE" resign "$ROLE" --from "$INSTANCE" --force
    if [ "$STORE_LATE" -eq 0 ]; then
        handed_over forced 0 "$((TTL + 1500))"
    else # its pause may be over before the lease has ended: then it may lead again itself
        until_true "$(((TTL + STORE_LATE) / 1000 + 5))" has_terms 2
    fi
    if another_leads "$old"; then
        took 'ms of the last sign of the old command' "$(last_of forced "$old")" -100 "$((TTL * 7 / 8 + 100))"
    fi
    until_true 5 said "$(name_of "$old")" '"event":"command_ending"' '"reason":"forced"'
    until_true 5 said "$(name_of "$old")" '"event":"lease_lost"'
    for name in a b; do kill -TERM "$(warden_of $name)"; done
    pause_ms 200
    halt a b
    never_two 2
}
# At once: G3 is given up, and it is said. The old command is ended as soon as its leader hears of it.
forced_now() {
    long
    first_leader a b
    old=$INSTANCE
    mark now
    exits 0 "$TENURE" resign "$ROLE" --from "$INSTANCE" --force --now
    err_has 'at once' 'tokens'
    until_true 15 another_leads "$INSTANCE"
    takeover now "$INSTANCE"
    took 'ms until another led' "$FIRST" 0 2000
    soon_true 3 said "$(name_of "$old")" '"event":"lease_lost"'
    pause_ms 300
    took 'ms of the last sign of the old command' "$(last_of now "$old")" -100 2500
    still_candidates a b
    same 'commands that run' "$(pollers | wc -l)" 1
    halt a b
    # Tokens increase, also then; that two believe for a moment is what was asked for.
    awk '$3 == "start" { if ($5 <= last) exit 1; last = $5 }' "$LOG" || fail 'tokens do not increase'
}

usage() {
    exits 2 "$TENURE" resign
    exits 2 "$TENURE" resign "$ROLE"
    err_has --from
    exits 2 "$TENURE" resign "$ROLE" --from a-1-00000000 --now
    err_has --force
    exits 2 "$TENURE" resign 'a//b' --from a-1700000000000000000-00000000
    exits 2 "$TENURE" resign "$ROLE" other --from a-1700000000000000000-00000000
    nothing_written
    exits 2 "$TENURE" resign "$ROLE" --from 'no
instance'
}

also 'the leader hands over at once, and stays a candidate' on_store_of_roles gracefully
also 'the work ends before the role is handed over; --wait waits for that' on_store_of_roles work_ends_first
also 'a --wait that elapses is 4, and the request stands' on_store_of_roles wait_elapses
also 'one that resigns without another candidate leads again after a TTL' on_store_of_roles alone
also 'with another instance than the leader nothing changes' on_store_of_roles wrong_instance
also 'when nobody leads it is 1' on_store_of_roles nobody
also '--force: the command is ended before the lease, and another leads after that' on_store_of_roles forced
also '--force --now: another leads at once, and the old command is ended' on_store_of_roles forced_now
if on_sqlite; then
    also 'mistakes are 2, with the reason, and nothing is written' usage
fi
gather
finish
