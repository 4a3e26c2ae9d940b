# Candidates for a role, real processes, for the end-to-end tests; sourced after tap.sh and fleet.sh. What each leader's
# command wrote while it ran is in one log ($LOG), which tests/lib/fleet_check.py judges alone.
# shellcheck shell=sh disable=SC2034 # INSTANCE and others are for the tests

# on_store_of_roles FUNCTION...: on the store that FLEET_STORE names; a Redis is not new to the namespace of roles.
on_store_of_roles() {
    on_store :
    if [ "$FLEET_STORE" = redis ]; then redis_begin leader; fi
    LOG=$CASE/polls
    : >"$LOG"
    trap end_all EXIT
    "$@"
}
# However the case has ended: what is detached, and in no PID namespace, would outlive the candidates for ever.
end_all() {
    while read -r elect_each; do tap_kill "$elect_each"; done <"$CASE/pids"
    for elect_each in $(pollers); do tap_kill "$elect_each"; done
    store_remove
}

# ---- candidates

ROLE=web
TTL=2400
RENEW=600
LASTS=600000
RESTART=always
KILL_AFTER=500
SHELL_AROUND= # a shell of the same command, when not empty

# elect NAME OPTION... [-- COMMAND...]: a candidate of the case's role and timing. $WARDEN is its process, also in
# $CASE/NAME.pid; its output is in NAME.out and NAME.err.
elect() {
    elect_name=$1
    shift
    # shellcheck disable=SC2086
    background "$elect_name" $UNDER "$TENURE" elect "$ROLE" --name "$elect_name" --ttl "${TTL}ms" --renew "${RENEW}ms" \
        --restart "$RESTART" --kill-after "${KILL_AFTER}ms" --log-format json "$@"
    WARDEN=$PID
    echo "$PID" >"$CASE/$elect_name.pid"
}

# candidate NAME OPTION...: the same with the command that keeps the log.
candidate() {
    # shellcheck disable=SC2086
    if [ -n "$SHELL_AROUND" ]; then
        elect "$@" -- sh -c '"$0" "$@"; exit $?' "$POLLER" "$CASE/polls" poll "$LASTS" $POLL_OPTIONS
    else
        elect "$@" -- "$POLLER" "$CASE/polls" poll "$LASTS" $POLL_OPTIONS
    fi
}

# leader: the instance whose command began last. term: its token.
leader() { awk '$3 == "start" { last = $6 } END { print last }' "$LOG"; }
term() { awk '$3 == "start" { last = $5 } END { print last }' "$LOG"; }
name_of() { echo "${1%-*-*}"; }
somebody_leads() { grep -q ' start ' "$LOG"; }
# leads NAME / another_leads INSTANCE / another_term TOKEN: whose command began last.
leads() { [ "$(name_of "$(leader)")" = "$1" ]; }
another_leads() {
    elect_leader=$(leader)
    [ -n "$elect_leader" ] && [ "$elect_leader" != "$1" ]
}
another_term() {
    elect_term=$(term)
    [ -n "$elect_term" ] && [ "$elect_term" != "$1" ]
}
# works_since MARK: a command has begun since, or goes on.
works_since() {
    awk -v mark="$1" '$3 == "mark" && $4 == mark { on = 1; found = 0 } on && $3 != "mark" { found = 1 }
        END { exit !found }' "$LOG"
}
began_since() {
    awk -v mark="$1" '$3 == "mark" && $4 == mark { on = 1; found = 0 } on && $3 == "start" { found = 1 }
        END { exit !found }' "$LOG"
}
# ms_until_start MARK: from the mark to the first command that began since.
ms_until_start() {
    awk -v mark="$1" '$3 == "mark" && $4 == mark { at = $1; ms = "" }
        at && ms == "" && $3 == "start" { ms = int(($1 - at) / 1000) } END { print ms }' "$LOG"
}
terms() { awk '$3 == "start" { n++ } END { print n + 0 }' "$LOG"; }
has_terms() { [ "$(terms)" -ge "$1" ]; }

# first_leader NAME...: starts them, and waits until one leads and the others know. INSTANCE is its id.
NAMESPACE=auto
first_leader() {
    for elect_each in "$@"; do candidate "$elect_each" --pid-namespace "$NAMESPACE"; done
    until_true 10 somebody_leads
    for elect_each in "$@"; do entered "$elect_each"; done
    INSTANCE=$(leader)
}
# entered NAME: waits until a candidate that was started leads, or knows who does.
entered() {
    until_true 10 knows_or_ended "$1"
    # At its start a candidate waits no longer for its store than its TTL allows. A supervisor would start it again.
    until knows "$1"; do
        too_late_at_start "$1" || fail "$1 has ended: $(cat "$CASE/$1.err")"
        candidate "$1" --pid-namespace "$NAMESPACE"
        until_true 10 knows_or_ended "$1"
    done
}
knows_or_ended() { knows "$1" || is_gone "$(warden_of "$1")"; }
# knows NAME: it leads, or has heard who does.
knows() { said "$1" '"event":"lease_acquired"' || said "$1" '"event":"lease_acquire_failed"'; }

# handed_over MARK LEAST MOST: another than INSTANCE leads, so many ms after the mark. INSTANCE is then the new one.
handed_over() {
    until_true 15 another_leads "$INSTANCE"
    takeover "$1" "$INSTANCE"
    took "ms until another led after $1" "$FIRST" "$2" "$3"
    INSTANCE=$(leader)
}

# role_is FIELD: of the role, as the store sees it.
role_is() {
    OUT=$("$TENURE" show "$ROLE" --namespace leader --json)
    field "$1"
}
role_is_free() { [ "$(role_is state)" = free ]; }
role_is_held() { [ "$(role_is state)" = held ]; }

# still_candidates NAME...: none has given up.
still_candidates() {
    for elect_each in "$@"; do
        is_gone "$(warden_of "$elect_each")" || continue
        elect_code=0
        wait "$(warden_of "$elect_each")" || elect_code=$?
        tail -n 15 "$CASE"/*.err
        fail "$elect_each is no longer a candidate: it has ended with $elect_code"
    done
}

# parent_of PID
parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status"; }
# shell_of PID: the shell around the command; with a PID namespace, too, its id here.
shell_of() { parent_of "$1"; }

# never_two TERMS: what the log says of the whole case.
never_two() { sound --terms "$1"; }
