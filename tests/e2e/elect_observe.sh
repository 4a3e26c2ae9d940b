#!/bin/sh
# tenure elect --observe: who leads, and every change.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

# observer OPTION...: its lines are in seen.out.
observer() {
    background seen "$TENURE" elect --observe "$ROLE" --log-format json "$@"
    OBSERVER=$PID
}
# saw COUNT: at least so many lines. last_is NAME: the last line is of that leader, or '-'.
saw() { [ "$(wc -l <"$CASE/seen.out")" -ge "$1" ]; }
last_is() {
    case $(tail -n 1 "$CASE/seen.out") in
    "$1" | "$1"-[0-9]*) ;;
    *) return 1 ;;
    esac
}
# Between two leaders there may have been nobody for a moment.
leaders_were() { [ "$(seen_names | sed 's/ -//g')" = "$1" ]; }
seen_names() { sed 's/-[0-9]*-[0-9a-f]*	.*//' "$CASE/seen.out" | tr '\n' ' '; }

changes() {
    TTL=20000
    RENEW=5000
    observer
    until_true 5 last_is -
    candidate a
    until_true 5 last_is a
    until_true 5 somebody_leads
    INSTANCE=$(leader)
    same 'the line' "$(tail -n 1 "$CASE/seen.out")" "$(printf '%s\t%s' "$INSTANCE" "$(term)")"
    candidate b
    until_true 5 said b '"event":"lease_acquire_failed"'
    "$TENURE" resign "$ROLE" --from "$INSTANCE"
    until_true 5 last_is b
    stop a
    kill -KILL "$(worker_of b)"
    until_true 5 leaders_were '- a b b ' # a new worker of it
    stop b
    until_true 5 last_is -
    saw_again=$(wc -l <"$CASE/seen.out")
    pause_ms 500
    same 'lines' "$(wc -l <"$CASE/seen.out")" "$saw_again"
    kill -TERM "$OBSERVER"
    ended 0 "$OBSERVER"
    [ ! -s "$CASE/seen.err" ] || fail "it says something: $(cat "$CASE/seen.err")"
}

# Other roles and namespaces are not its business; and what began before is its first line.
present() {
    TTL=20000
    RENEW=5000
    first_leader a
    observer
    until_true 5 last_is a
    on_sqlite || redis_begin elsewhere
    "$TENURE" elect other --name x --log-level error -- true
    "$TENURE" elect "$ROLE" --namespace elsewhere --name x --log-level error -- true
    "$TENURE" acquire "$ROLE"
    pause_ms 500
    same 'what it saw' "$(seen_names)" 'a '
    stop a
    until_true 5 last_is -
    kill -INT "$OBSERVER"
    ended 0 "$OBSERVER"
}

# A lease that nobody renews, nor releases: worker and warden have died.
ends_by_itself() {
    TTL=1500
    RENEW=400
    first_leader a
    observer
    until_true 5 last_is a
    mark kill
    kill -KILL "$(warden_of a)"
    until_true 10 last_is -
    took 'ms until it was told' "$(($(boot_ms) - $(awk '$3 == "mark" { printf "%d\n", $1 / 1000 }' "$LOG")))" 700 4000
    same 'what it saw' "$(seen_names)" 'a - '
    candidate b
    until_true 5 last_is b
    stop b
    kill -TERM "$OBSERVER"
    ended 0 "$OBSERVER"
}

json() {
    TTL=20000
    RENEW=5000
    observer --json
    until_true 5 saw 1
    OUT=$(tail -n 1 "$CASE/seen.out")
    same 'the state' "$(field state)" free
    same 'the instance' "$(field instance)" null
    candidate a
    until_true 5 saw 2
    all_json "$CASE/seen.out"
    until_true 5 somebody_leads
    OUT=$(tail -n 1 "$CASE/seen.out")
    same 'the target' "$(field target)" "$ROLE"
    same 'the namespace' "$(field namespace)" leader
    same 'the instance' "$(field instance)" "$(leader)"
    same 'the token' "$(field token)" "$(term)"
    same 'the state' "$(field state)" held
    field acquired_at | grep -qE '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z$' || fail 'no time of the acquisition'
    stop a
    until_true 5 saw 3
    kill -TERM "$OBSERVER"
    ended 0 "$OBSERVER"
}

# The store is out of reach for a while: what runs for weeks does not end of that.
store_back() {
    TTL=1500
    RENEW=400
    if on_sqlite; then
        mkdir db
        TENURE_STORE=sqlite:$CASE/db/store.db
    fi
    first_leader a
    observer
    until_true 5 last_is a
    if on_sqlite; then mv db away; else redis_stop; fi
    pause_ms 3000
    mark back
    if on_sqlite; then mv away db; else redis_start_again; fi
    until_true 10 began_since back
    until_true 10 grep -qF "$(term)" "$CASE/seen.out"
    stop a
    until_true 10 last_is -
    # Each only once, whatever was read again.
    same 'lines that are there twice in a row' "$(uniq -d "$CASE/seen.out" | wc -l)" 0
    kill -TERM "$OBSERVER"
    ended 0 "$OBSERVER"
}

# Whoever reads it has gone.
closed_pipe() {
    TTL=20000
    RENEW=5000
    "$TENURE" elect --observe "$ROLE" 2>"$CASE/seen.err" | head -n 1 >"$CASE/seen.out" &
    until_true 5 saw 1
    candidate a
    until_true 5 nobody_observes
    stop a
}
nobody_observes() { [ -z "$(observers)" ]; }
observers() {
    for process in /proc/[0-9]*; do
        if tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -q '^[^ ]*tenure elect --observe' &&
            tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qxF "TENURE_STORE=$TENURE_STORE"; then
            echo "${process#/proc/}"
        fi
    done
}

also 'the leader and each change are printed, and - when nobody leads' on_store_of_roles changes
also 'the present leader comes first; other roles and namespaces are left out' on_store_of_roles present
also 'a lease that ends by itself is told, too' on_store_of_roles ends_by_itself
also '--json: an object a line' on_store_of_roles json
also 'it goes on when the store was away' on_store_of_roles store_back
also 'it ends when nobody reads it any more' on_store_of_roles closed_pipe
gather
finish
