#!/bin/sh
# What scripts and log collectors read: JSON, tables, log lines; and where settings come from.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

lease_keys='target namespace instance token state planned acquired_at renewed_at expires_at remaining_ms'

# has_keys KEY...: each line of OUT is an object that has them all.
has_keys() {
    printf '%s\n' "$OUT" | python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert lines, "no line at all"
for line in lines:
    missing = set(sys.argv[1:]) - set(line)
    assert not missing, f"{missing} missing in {line}"' "$@" || fail "keys are missing"
}

# ---- JSON

show_json() {
    exits 0 "$TENURE" acquire job-1 --name me
    exits 0 "$TENURE" show job-1 --json
    all_json
    has_keys $lease_keys
    same state "$(field state)" held
    same token "$(field token)" 1
    same namespace "$(field namespace)" poll
    same planned "$(field planned)" null
    between remaining_ms "$(field remaining_ms)" 25000 30000
    printf '%s\n' "$OUT" | python3 -c '
import datetime, json, sys
lease = json.load(sys.stdin)
times = [datetime.datetime.strptime(lease[key], "%Y-%m-%dT%H:%M:%S.%fZ")
         for key in ("acquired_at", "renewed_at", "expires_at")]
assert abs((times[2] - times[0]).total_seconds() - 30) < 1, times
assert abs((datetime.datetime.utcnow() - times[0]).total_seconds()) < 60, times'
}

free_json() {
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" release job-1 --token 1
    exits 0 "$TENURE" show job-1 --json
    has_keys $lease_keys
    for key in instance acquired_at renewed_at expires_at; do
        same "$key" "$(field "$key")" null
    done
    same token "$(field token)" 1
    same state "$(field state)" free
    same remaining_ms "$(field remaining_ms)" 0
}

ls_json() {
    for id in a b c; do exits 0 "$TENURE" acquire "$id"; done
    exits 0 "$TENURE" ls --json
    all_json
    has_keys $lease_keys
    same 'number of lines' "$(printf '%s\n' "$OUT" | wc -l)" 3
}

acquire_json() {
    exits 0 "$TENURE" acquire job-1 --json
    all_json
    has_keys target namespace instance token
    same token "$(field token)" 1
    instance=$(field instance)
    same instance "$instance" "$(holder_of job-1)"
}

doctor_json() {
    exits 0 "$TENURE" doctor --migrate --json
    all_json
    has_keys check level found advice
    exits 0 "$TENURE" doctor
    out_has "ok    store" 'latency' 'TTL' "$CASE/store.db"
}

# ---- logs

log_keys='ts level event instance namespace target token'

log_text() {
    exits 0 "$TENURE" acquire job-1 --name me
    for key in $log_keys; do
        printf '%s\n' "$ERR" | grep -Eq "(^| )$key=[^ ]" || fail "no $key in the log line"
    done
    err_has 'level=info event=lease_acquired instance=me-' ' namespace=poll target=job-1 token=1'
    printf '%s\n' "$ERR" | grep -Eq '^ts=[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z ' || fail 'ts is not RFC 3339 with ms'
}

log_json() {
    for verb in acquire 'renew --token 1' 'release --token 1'; do
        exits 0 "$TENURE" $verb job-1 --log-format json
        OUT=$ERR
        all_json
        has_keys $log_keys
    done
}

log_levels() {
    exits 0 "$TENURE" acquire job-1 --log-level warn
    same 'standard error' "$ERR" ''
    exits 4 "$TENURE" acquire job-1 --log-level warn
    same 'lines about it' "$(printf '%s\n' "$ERR" | grep -c held)" 1
    exits 4 "$TENURE" acquire job-1 --log-level error
    same 'standard error' "$ERR" "$(printf '%s\n' "$ERR" | grep '^tenure: ')"
}

# ---- tables

piped_table() {
    exits 0 "$TENURE" acquire job-1 --name me
    exits 0 "$TENURE" ls
    out_lacks TARGET
    same 'number of columns' "$(printf '%s\n' "$OUT" | awk -F '\t' '{ print NF }')" 6
    same 'the first four' "$(printf '%s\n' "$OUT" | cut -f 1,2,4 | tr '\t' ' ')" 'job-1 held 1'
    exits 0 "$TENURE" target add x --url http://localhost/
    exits 0 "$TENURE" target ls
    same 'columns of target ls' "$(printf '%s\n' "$OUT" | awk -F '\t' '{ print NF }')" 5
}

control_in_table() {
    exits 0 "$TENURE" target add a --exec "$(printf 'one\nb\ttwo\033[31m')" --url 'http://h/ä'
    exits 0 "$TENURE" target ls
    same 'number of lines' "$(printf '%s\n' "$OUT" | wc -l)" 1
    same 'number of columns' "$(printf '%s\n' "$OUT" | awk -F '\t' '{ print NF }')" 5
    out_has 'one\x0ab\x09two\x1b[31m'
    out_has 'http://h/ä'
    # U+202E turns what follows around: a name would read as another one.
    exits 0 "$TENURE" target add a --exec "$(printf 'a-\342\200\256nimda')"
    exits 0 "$TENURE" target ls
    out_has 'a-\xe2\x80\xaenimda'
    exits 0 "$TENURE" target ls --json
    out_has 'a-\u202enimda'
}

terminal_table() {
    exits 0 "$TENURE" acquire a
    exits 0 "$TENURE" acquire a-much-longer-id
    exits 0 script -qec "$TENURE ls" /dev/null
    same 'number of lines' "$(printf '%s\n' "$OUT" | wc -l)" 3
    printf '%s\n' "$OUT" | tr -d '\r' >"$CASE/table"
    head -n 1 "$CASE/table" | grep -Eq '^TARGET +STATE +INSTANCE +TOKEN +REMAINING +HELD FOR$' || fail 'no heading'
    ! grep -q "$(printf '\t')" "$CASE/table" || fail 'there are tabs'
    same 'where the second column starts' \
        "$(awk '{ print NR == 1 ? index($0, "STATE") : index($0, " held") + 1 }' "$CASE/table" | sort -u | wc -l)" 1
}

# ---- settings

environment_is_read() {
    unset TENURE_STORE
    exits 0 env TENURE_STORE="sqlite:$CASE/other.db" TENURE_NAMESPACE=jobs TENURE_TTL=5s TENURE_NAME=me \
        TENURE_LOG_FORMAT=json "$TENURE" acquire job-1
    same 'the log' "$(printf '%s' "$ERR" | cut -c 1)" '{'
    [ -f "$CASE/other.db" ] || fail 'the store is not where TENURE_STORE says'
    exits 0 "$TENURE" show job-1 --json --store "sqlite:$CASE/other.db" --namespace jobs
    between remaining_ms "$(field remaining_ms)" 3000 5000
    out_has '"instance":"me-' '"namespace":"jobs"'
    exits 0 env TENURE_LOG_LEVEL=error "$TENURE" acquire job-2 --store "sqlite:$CASE/other.db"
    same 'standard error' "$ERR" ''
}

flag_beats_variable() {
    exits 0 env TENURE_STORE="sqlite:$CASE/wrong.db" TENURE_NAMESPACE=wrong TENURE_TTL=9m TENURE_NAME=wrong \
        TENURE_LOG_FORMAT=json TENURE_LOG_LEVEL=error \
        "$TENURE" acquire job-1 --store "sqlite:$CASE/right.db" --namespace right --ttl 5s --name right \
        --log-format text --log-level info
    err_has 'ts=' 'namespace=right' 'instance=right-' 'ttl_ms=5000'
    [ ! -e "$CASE/wrong.db" ] || fail 'TENURE_STORE was used'
    [ -f "$CASE/right.db" ] || fail '--store was not used'
}

bad_variable() {
    exits 2 env TENURE_TTL=30 "$TENURE" acquire job-1
    err_has "TENURE_TTL: duration '30' has no unit"
    exits 2 env TENURE_TTL=0s "$TENURE" acquire job-1
    err_has "TENURE_TTL: '0s' is too short"
    exits 2 env TENURE_RENEW=20s "$TENURE" acquire job-1
    err_has 'renewing every 20.0s cannot be safe'
    exits 2 env TENURE_LOG_LEVEL=loud "$TENURE" acquire job-1
    err_has "TENURE_LOG_LEVEL: 'loud'"
    nothing_written
}

default_by_xdg() {
    unset TENURE_STORE
    exits 0 env XDG_STATE_HOME="$CASE/state" "$TENURE" acquire job-1
    [ -f "$CASE/state/tenure/tenure.db" ] || fail 'no database in $XDG_STATE_HOME/tenure'
    [ ! -e "$HOME/.local" ] || fail 'something was made in HOME'
}

default_by_home() {
    unset TENURE_STORE
    exits 0 "$TENURE" acquire job-1
    [ -f "$HOME/.local/state/tenure/tenure.db" ] || fail 'no database in ~/.local/state/tenure'
    exits 4 "$TENURE" acquire job-1
}

no_home() {
    unset TENURE_STORE
    run env -u HOME "$TENURE" ls
    [ "$STATUS" -ne 0 ] || fail 'it succeeded'
    err_has '--store'
}

it 'show --json has the keys that scripts depend on' show_json
it 'a free target has null for its holder and its times' free_json
it 'ls --json prints one object a line' ls_json
it 'acquire --json prints the token with its instance' acquire_json
it 'doctor reports each check, in words and in JSON' doctor_json
it 'a text log line has ts, level, event, instance, namespace, target and token' log_text
it 'a JSON log line has the same keys' log_json
it 'the log level leaves out what is below it, but not the message to the user' log_levels
it 'a table in a pipe is tab-separated and has no heading' piped_table
it 'control characters of a target are shown in a table, not printed' control_in_table
it 'a table on a terminal is aligned under a heading' terminal_table
it 'environment variables set the common options' environment_is_read
it 'a flag beats its environment variable' flag_beats_variable
it 'a bad value in the environment is refused by its name' bad_variable
it 'the default store lies in XDG_STATE_HOME' default_by_xdg
it 'without XDG_STATE_HOME it lies in ~/.local/state' default_by_home
it 'without a home the message asks for --store' no_home
finish
