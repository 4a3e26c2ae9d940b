#!/bin/sh
# tenure elect: a store in trouble. The command ends before its lease does, whatever it does against that, and the
# candidates go on by themselves when the store is back. Faults 5, 10, 17, 18 and 21. On SQLite or Redis: out of reach is
# a directory that has gone, or a server that has ended; locked is a lock on the file, or a server that is stopped.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

start() {
    TTL=1600
    RENEW=400
    RESTART=never # its command does not exit: it is ended
    POLL_OPTIONS='detach stubborn'
    if on_sqlite; then
        mkdir db
        TENURE_STORE=sqlite:$CASE/db/store.db
        make_store
    fi
    first_leader a b
}
# trouble BEGIN END: commands that make the store unusable for more than the TTL, and usable again.
trouble() {
    start
    $1
    mark trouble
    # The deadline is the TTL less an eighth after the last renewal, and everything is gone by then.
    pause_ms "$TTL"
    mark closed
    soon_true 2 no_pollers
    pause_ms "$TTL"
    mark back
    $2
    no_poll_between closed back
    until_true 10 began_since back
    still_candidates a b
    until_true 5 says_why "$(name_of "$INSTANCE")"
    if on_sqlite; then place=$CASE/; else place=redis://127.0.0.1:; fi
    said "$(name_of "$INSTANCE")" '"event":"store_down"' "$place" || fail 'store_down does not name the store'
    halt a b
    never_two 2
    soon_true 3 no_pollers
}

says_why() { said "$1" '"event":"lease_lost"' || said "$1" '"event":"lease_released"' '"reason":"store"'; }

# It is asked to stop while the store does not answer: the command ends at once, and nobody waits for long.
stopped_meanwhile() {
    TTL=6000
    RENEW=1500
    KILL_AFTER=300
    first_leader a b
    old=$INSTANCE
    lock_store
    mark stop
    for name in a b; do kill -TERM "$(warden_of $name)"; done
    for name in a b; do
        until_true 15 is_gone "$(warden_of $name)"
        ended 0 "$(warden_of $name)"
    done
    took 'ms of the last sign of the command' "$(last_of stop "$old")" -100 2500
    unlock_store
    never_two 1
}

# Worker and store fail together: nobody gives up.
crash_meanwhile() {
    start
    go_away
    name=$(name_of "$INSTANCE")
    worker=$(worker_of "$name")
    kill -KILL "$worker"
    soon_true 3 no_pollers
    pause_ms 1500
    still_candidates a b
    mark back
    come_back
    until_true 15 began_since back
    until_true 15 has_worker_other_than "$name" "$worker"
    stop "$(name_of "$(leader)")"
    until_true 15 has_terms 3
    halt a b
    never_two 3
}

# Commands that exit with 0 when they are asked to end, as good services do, on a store that is locked for more than the
# TTL. Each has a role of its own. Whoever ended a command decides: the lease was lost, whatever the command says.
polite() {
    TTL=2400
    RENEW=400
    elects='e1 e2 e3 e4'
    onces='o1 o2 o3 o4'
    number=0
    for name in $elects $onces; do
        number=$((number + 1))
        case $number in 1 | 4) RESTART=never ;; 2 | 5) RESTART=on-failure ;; *) RESTART=always ;; esac
        if [ $((number % 2)) -eq 0 ]; then how='--pid-namespace off'; else how='--pid-namespace auto'; fi
        case $name in
        e*) verb="elect $name --restart $RESTART" ;;
        *) verb="once $name --wait 20s" ;;
        esac
        # shellcheck disable=SC2016,SC2086 # a command for the shell of the candidate
        background "$name" "$TENURE" $verb --name "$name" --ttl "${TTL}ms" --renew "${RENEW}ms" --grace 800ms $how \
            --log-format json -- sh -c 'trap "exit 0" TERM; echo "$TENURE_TOKEN" >>"$0"; while :; do sleep 0.05; done' \
            "$CASE/$name.terms"
        echo "$PID" >"$CASE/$name.pid"
    done
    for name in $elects $onces; do until_true 20 begun_or_gone "$name"; done
    lock_store
    for name in $elects $onces; do
        until_true 20 said "$name" '"event":"command_ended"'
        said "$name" '"event":"command_ending"' '"ends_in_ms":' || fail "$name does not say why it was ended"
    done
    unlock_store
    for name in $onces; do ended 5 "$(warden_of "$name")"; done
    for name in $elects; do until_true 20 has_lines 2 "$CASE/$name.terms"; done
    # shellcheck disable=SC2086
    still_candidates $elects
    # On a machine that is very busy they may all be killed before they exit.
    echo "exited with 0: $(cat "$CASE"/*.err | grep -c '"event":"command_ended".*"exit_status":0')"
    # shellcheck disable=SC2086
    halt $elects
}
# One that is gone has lost its lease on a busy machine, which is judged below.
begun_or_gone() { [ -s "$CASE/$1.terms" ] || is_gone "$(warden_of "$1")"; }
has_lines() { [ "$(wc -l <"$2")" -ge "$1" ]; }

# cut FAULT...: the leader is cut from the store by the proxy before it, not from its work; the other is not.
cut() {
    start_behind_proxy
    proxy_tell proxy "$@" >/dev/null
    mark cut
    handed_over cut "$((TTL - RENEW - 400))" "$((TTL + 1500))"
    same 'who leads now' "$(name_of "$INSTANCE")" b
    took 'ms of the last sign of the old command' "$(last_of cut a-)" 0 "$((TTL * 7 / 8 + 50))"
    proxy_tell proxy clear >/dev/null
    proxy_tell proxy cut >/dev/null
    pause_ms 300
    still_candidates a
    mark joined
    stop b
    until_true 8 leads a
    takeover joined b-
    took 'ms until the one that was cut led again' "$FIRST" 0 "$((TTL + 1500))"
    stop a
    never_two 3
    soon_true 3 no_pollers
}
start_behind_proxy() {
    steady_ttl 1600 # the leader that is cut must be the one that was found before
    RESTART=never
    POLL_OPTIONS='detach stubborn'
    proxy_start proxy
    candidate a --store "$(through proxy)"
    until_true 10 somebody_leads
    INSTANCE=$(leader)
    candidate b
    until_true 5 said b '"event":"lease_acquire_failed"'
}

# The server comes back with nothing: nobody is let in while a leader may still believe, and tokens do not go down.
lost_data() {
    start
    redis_kill
    mark lost
    redis_start_again empty
    pause_ms $((2 * TTL))
    mark after
    until_true 10 works_since after
    halt a b
    never_two 1
}

also 'a store out of reach for two TTLs: the command is ended before the lease is, and somebody leads again after it' \
    on_store_of_roles trouble go_away come_back
also 'a store that is locked for two TTLs: the same' on_store_of_roles trouble lock_store unlock_store
also 'commands that exit with 0 when the lease ends them: elect campaigns again, once says 5' on_store_of_roles polite
also 'SIGTERM while the store does not answer ends the command, and then the candidates, with 0' \
    on_store_of_roles stopped_meanwhile
also 'a worker that is killed while the store is away is replaced, and leads again when it is back' \
    on_store_of_roles crash_meanwhile
if ! on_sqlite; then
    also 'a leader whose requests vanish stops before another leads' on_store_of_roles cut drop up
    also 'a leader whose answers vanish stops before another leads' on_store_of_roles cut drop down
    also 'a leader whose connection is half-open stops before another leads' on_store_of_roles cut half-open
    also 'a Redis that has lost everything lets nobody else in while a leader may believe' on_store_of_roles lost_data
fi
gather
finish
