#!/bin/sh
# An agent and a candidate in the foreground of a terminal, where ^Z is typed, or the whole group is stopped: a poll or a
# command never runs beside its successor's.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

TTL=2000
RENEW=500

# in_terminal NAME HOW COMMAND...: its log is in NAME.err, its process in NAME.pid. It is told what to do by `tell WORD`.
in_terminal() {
    terminal_name=$1
    terminal_how=$2
    shift 2
    mkfifo "$CASE/words"
    echo "\$ terminal_stop.py $terminal_how $* &"
    # shellcheck disable=SC2016 # for the shell inside
    "$PYTHON" "$TENURE_SOURCE/tests/lib/terminal_stop.py" "$CASE/$terminal_name.pid" "$terminal_how" \
        sh -c 'exec "$@" 2>"$0"' "$CASE/$terminal_name.err" "$@" <"$CASE/words" >"$CASE/answers" &
    echo "$!" >>"$CASE/pids"
    exec 9>"$CASE/words"
    until_true 10 test -s "$CASE/$terminal_name.pid"
}
tell() {
    terminal_before=$(wc -l <"$CASE/answers")
    echo "$1" >&9
    until_true 10 more_answers "$terminal_before"
}
more_answers() { [ "$(wc -l <"$CASE/answers")" -gt "$1" ]; }
agent_options() {
    echo "--ttl ${TTL}ms --renew ${RENEW}ms --settle ${SETTLE}ms --every 100s --timeout 100s --targets store --log-format json --pid-namespace $NAMESPACE"
}

# agent HOW NAMESPACE: the worker of an agent is in a group of its own, and goes on.
stopped_agent() {
    NAMESPACE=$2
    targets 1
    # shellcheck disable=SC2046
    in_terminal a "$1" "$TENURE" agent --name a $(agent_options) --poll "exec:exec $POLLER $LOG poll $LASTS"
    until_true 10 somebody_leads
    # shellcheck disable=SC2046
    background b "$TENURE" agent --name b $(agent_options) --poll "exec:exec $POLLER $LOG poll $LASTS"
    echo "$PID" >"$CASE/b.pid"
    until_true 10 instances_are 2
    tell stop
    let_run "$((TTL * 5 / 2))"
    tell continue
    tell end
    until_true 20 is_gone "$(warden_of a)"
    sound
    until_true 20 leads b
    kill -TERM "$(warden_of b)"
    kill -TERM "$(warden_of b)"
    sound
}

# elect HOW NAMESPACE: ^Z stops nothing.
key_on_elect() {
    NAMESPACE=$1
    steady_ttl 2000
    in_terminal a key "$TENURE" elect "$ROLE" --name a --ttl "${TTL}ms" --renew "${RENEW}ms" --log-format json \
        --pid-namespace "$NAMESPACE" -- "$POLLER" "$LOG" poll "$LASTS"
    until_true 10 somebody_leads
    candidate b --pid-namespace "$NAMESPACE"
    entered b
    tell stop
    let_run "$((TTL * 3 / 2))"
    mark later
    until_true 5 works_since later
    leads a || fail 'another leads, although nothing was stopped'
    tell end
    until_true 10 leads b
    halt b
    never_two 2
}

# stop_outside_transaction: stops it at a moment when it has not locked the store's file, which would keep everybody else
# out for as long as it is stopped.
stop_outside_transaction() {
    mark stop
    tell stop
    until "$TENURE" target add probe --namespace probe >/dev/null 2>&1; do
        tell continue
        tap_sleep 200
        mark stop
        tell stop
    done
}

# A stop of the whole group stops warden, worker and command. Until it is continued the command does nothing; then it is
# ended, and has never run while its successor did. With a PID namespace it does not even live until then.
group_of_elect() {
    NAMESPACE=$1
    in_terminal a group "$TENURE" elect "$ROLE" --name a --ttl "${TTL}ms" --renew "${RENEW}ms" --log-format json \
        --pid-namespace "$NAMESPACE" -- "$POLLER" "$LOG" poll "$LASTS"
    until_true 10 somebody_leads
    candidate b --pid-namespace "$NAMESPACE"
    entered b
    old=$(leader)
    poller=$(pollers | head -n 1)
    stop_outside_transaction
    until_true 10 leads b
    took 'ms of the last sign of the old command' "$(last_of stop "$old")" -60000 "$((TTL * 7 / 8 + 50))"
    if [ "$NAMESPACE" = auto ]; then is_gone "$poller" || fail 'it has outlived its lease'; fi
    sound
    mark continued
    tell continue
    until_true 10 is_gone "$poller"
    took 'ms of the last sign of it after it was continued' "$(last_of continued "$old")" -60000 50
    tell end
    halt b
}

also '^Z on an agent: no poll beside its successor' on_store_of_roles stopped_agent key auto
also '^Z on an agent without isolation: the same' on_store_of_roles stopped_agent key off
also 'SIGSTOP to the group of an agent: no poll beside its successor' on_store_of_roles stopped_agent group auto
also 'SIGSTOP to the group of an agent without isolation: the same' on_store_of_roles stopped_agent group off
also '^Z on elect stops nothing: the command goes on, and leads' on_store_of_roles key_on_elect auto
also '^Z on elect without isolation: the same' on_store_of_roles key_on_elect off
if has_namespaces; then
    also 'SIGSTOP to the group of elect: its command is ended by the deadline' on_store_of_roles group_of_elect auto
fi
also 'SIGSTOP to the group of elect without isolation: its command does nothing, and is ended when it wakes' \
    on_store_of_roles group_of_elect off
gather
finish
