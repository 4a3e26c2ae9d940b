#!/bin/sh
# Crontabs across a fleet: `tenure cron` and its verbs. Jobs write their name and instant to a log, which is all that is
# judged. FLEET_STORE chooses the store.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# runner NAME OPTION...: on the case's crontab.
runner() {
    cron_name=$1
    shift
    background "$cron_name" "$TENURE" cron "$CASE/tab" --name "$cron_name" --ttl "${TTL}ms" --renew "${RENEW}ms" \
        --settle "${SETTLE}ms" --log-format json "$@"
    echo "$PID" >"$CASE/$cron_name.pid"
}
# line NAME SCHEDULE [KEY=VALUE...]: a job that writes itself to the log.
line() {
    cron_job=$1
    cron_schedule=$2
    shift 2
    printf '%s %s %s echo "$TENURE_JOB $TENURE_INSTANT $TENURE_TOKEN" >>%s\n' "$cron_job" "$*" "$cron_schedule" \
        "$CASE/runs" >>"$CASE/tab"
}
runs_of() { grep -c "^$1 " "$CASE/runs" 2>/dev/null || :; }
ran() { [ "$(runs_of "$1")" -ge "$2" ]; }

# once_each: no instant of a job is twice in the log.
once_each() {
    cut -d' ' -f1,2 "$CASE/runs" | sort | uniq -d >"$CASE/twice"
    [ ! -s "$CASE/twice" ] || fail "ran twice: $(cat "$CASE/twice")"
}
# no_gap JOB SECONDS: its instants follow each other at that distance; those that the history tells as lost count. (Whoever
# was killed may not have come to log what it told the store.)
no_gap() {
    {
        sed -n "s/^$1 \([^ ]*\) .*/\1/p" "$CASE/runs"
        "$TENURE" history "$1" --namespace cron --json | grep -F '"event":"cron_lost"' |
            sed -n 's/.*"instant":"\([^"]*\)".*/\1/p'
    } | sort -u | "$PYTHON" -c '
import datetime, sys
step = float(sys.argv[1])
last = None
for text in sys.stdin.read().split():
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    if last is not None and at - last != step:
        sys.exit("a gap of %s s before %s" % (at - last, text))
    last = at' "$2" || {
        if [ -n "${FLEET_KEEP:-}" ]; then cp -r "$CASE" "$FLEET_KEEP"; fi
        fail "$1 has a gap"
    }
}

runs_across_the_fleet() {
    for job in a b c d; do line job-$job '@every 1s' missed=all; done
    for name in x y; do runner $name; done
    for job in a b c d; do until_true 30 ran job-$job 5; done
    "$TENURE" cron ls >"$CASE/listed"
    grep -c 'exit 0' "$CASE/listed" >/dev/null || fail "no result in $(cat "$CASE/listed")"
    halt x y
    once_each
    for job in a b c d; do no_gap job-$job 1; done
    cat "$CASE/x.err" "$CASE/y.err" | grep -F '"event":"cron_ended"' | grep -Fq '"exit_code":0' || fail 'no cron_ended'
}

survives_kills() {
    # A run that a takeover has made late may overlap the next instant, which must not be skipped then.
    for job in a b c d e; do line job-$job '@every 1s' missed=all overlap=wait max-late=10m; done
    for name in x0 y z; do runner $name; done
    until_true 30 ran job-a 2
    for round in 1 2 3; do # each life has a log of its own
        kill_host x$((round - 1))
        pause_ms $((TTL / 2))
        runner x$round
        pause_ms $((TTL + round * 300))
        kill -KILL "$(worker_of y)" 2>/dev/null || :
        pause_ms $((TTL / 2))
    done
    before=$(runs_of job-e)
    until_true 60 ran job-e $((before + 3))
    halt x3 y z
    once_each
    for job in a b c d e; do no_gap job-$job 1; done
    for job in a b c d e; do history_is_true job-$job; done
}

# history_is_true JOB: its history has each run of the log once, those that were lost too, and no other.
history_is_true() {
    "$TENURE" history "$1" --namespace cron --json >"$CASE/history"
    "$PYTHON" -c '
import json, sys
job, log, history = sys.argv[1:]
ran = {line.split()[1] for line in open(log) if line.split()[0] == job}
told = [json.loads(line) for line in open(history)]
ended = [entry["instant"] for entry in told if entry["event"] == "cron_ended"]
lost = [entry["instant"] for entry in told if entry["event"] == "cron_lost"]
both = ended + lost
assert len(both) == len(set(both)), "twice: %s" % both
assert set(ended) <= ran, "told, and did not run: %s" % (set(ended) - ran)
assert ran <= set(both), "ran, and is not told: %s" % (ran - set(both))
assert all(entry["exit_code"] == 0 for entry in told if entry["event"] == "cron_ended")
' "$1" "$CASE/runs" "$CASE/history" || fail "the history of $1 is wrong: $(cat "$CASE/history")"
}

a_deployment_loses_nothing() {
    for job in a b c; do line job-$job '@every 1s' missed=all; done
    runner x
    until_true 30 ran job-a 2
    for name in y z; do
        runner $name
        pause_ms $((SETTLE + TTL))
        [ $name = y ] && stop x
        [ $name = z ] && stop y
    done
    before=$(runs_of job-c)
    until_true 30 ran job-c $((before + 3))
    halt z
    once_each
    for job in a b c; do no_gap job-$job 1; done
    if cat "$CASE"/*.err | grep -F '"event":"cron_lost"'; then fail 'a stop has lost a run'; fi
}

says_how_it_ended() {
    cat >"$CASE/tab" <<END
fails @every 1s echo some words; exit 3
dies @every 1s kill -9 \$\$
overlong timeout=300ms @every 1s sleep 20
overlaps overlap=skip @every 1s sleep 2.5
sees @every 1s env | grep ^TENURE_ | sort >$CASE/seen
END
    runner x --metrics 127.0.0.1:0
    until_true 30 said x '"event":"cron_ended"' '"target":"fails"' '"exit_code":3' '"output":"some words"'
    until_true 30 said x '"event":"cron_ended"' '"target":"overlong"' '"error":"timed out"'
    until_true 30 said x '"event":"cron_missed"' '"target":"overlaps"'
    until_true 30 test -s "$CASE/seen"
    for name in TENURE_JOB=sees TENURE_INSTANT=20 TENURE_TOKEN= TENURE_INSTANCE=x- TENURE_NAMESPACE=cron; do
        grep -q "^$name" "$CASE/seen" || fail "no $name in $(cat "$CASE/seen")"
    done
    "$TENURE" cron ls --json >"$CASE/listed"
    grep -F '"job":"fails"' "$CASE/listed" | grep -Fq '"result":"exit 3"' || fail "$(cat "$CASE/listed")"
    grep -F '"job":"overlong"' "$CASE/listed" | grep -Eq '"result":"(timed out|running)"' || fail "$(cat "$CASE/listed")"
    runs_are_measured
    until_true 30 said x '"event":"cron_ended"' '"target":"dies"'
    halt x
    history_has fails '"event":"cron_ended"' '"reason":"exited"' '"exit_code":3' '"instant":"20' '"started_at":"20' \
        '"duration_ms":' '"instance":"x-'
    history_has dies '"event":"cron_ended"' '"reason":"signal"' '"exit_code":137'
    history_has overlong '"event":"cron_ended"' '"reason":"timed_out"' '"exit_code":143'
    history_has overlaps '"event":"cron_missed"' '"reason":"overlap"' '"count":2'
    history_has fails '"event":"lease_acquired"'
    exits 0 "$TENURE" history --namespace cron
    [ "$(printf '%s\n' "$OUT" | grep -c cron_ended)" = 0 ] || fail 'the history of all has the runs of one'
}

# history_has JOB WORD...: an entry of its history has all of these.
history_has() {
    "$TENURE" history "$1" --namespace cron --json >"$CASE/history"
    shift
    cp "$CASE/history" "$CASE/found"
    for word in "$@"; do
        grep -F "$word" "$CASE/found" >"$CASE/found.next" || fail "no entry with $* in $(cat "$CASE/history")"
        mv "$CASE/found.next" "$CASE/found"
    done
}

# metric NAME: its value.
metric() {
    "$PYTHON" -c '
import sys, urllib.request
for line in urllib.request.urlopen("http://%s/metrics" % sys.argv[1], timeout=20).read().decode().splitlines():
    if line.startswith(sys.argv[2] + " "):
        print(line.split()[-1])' "$(sed -n 's/.*"event":"metrics_served".*"address":"\([^"]*\)".*/\1/p' "$CASE/x.err" | head -n 1)" "$1"
}
counted() { [ "$(metric "$1" | cut -d. -f1)" -ge "$2" ]; }

runs_are_measured() {
    for result in ok failed timed_out; do
        until_true 20 counted "tenure_cron_runs_total{namespace=\"cron\",result=\"$result\"}" 1
    done
    until_true 20 counted 'tenure_cron_skipped_total{namespace="cron",reason="overlap"}' 2
    same 'instants that were missed' "$(metric 'tenure_cron_skipped_total{namespace="cron",reason="missed"}')" 0
    until_true 20 counted 'tenure_cron_late_seconds_count{namespace="cron"}' 4
    same 'the last exit code' "$(metric 'tenure_cron_last_exit_code{namespace="cron",job="fails"}')" 3
    counted 'tenure_cron_last_duration_seconds{namespace="cron",job="overlaps"}' 2 || fail 'how long it took'
    counted 'tenure_cron_last_success_timestamp_seconds{namespace="cron",job="sees"}' $(($(date +%s) - 60)) ||
        fail 'when it succeeded'
    same 'when it never succeeded' "$(metric 'tenure_cron_last_success_timestamp_seconds{namespace="cron",job="fails"}')" 0.000
}

is_read_again() {
    line old '@every 1s'
    echo 'wrong 61 * * * * true' >>"$CASE/tab"
    runner x
    until_true 30 ran old 1
    until_true 10 said x '"event":"target_refused"' '"line":2' 'column 7: the minute is 0 to 59, not 61'
    line new '@every 1s'
    until_true 30 ran new 1
    grep -v '^old ' "$CASE/tab" >"$CASE/tab.new"
    mv "$CASE/tab.new" "$CASE/tab"
    until_true 30 said x '"event":"lease_released"' '"target":"old"'
    count=$(runs_of old)
    until_true 30 ran new 4
    same 'runs of the job that was removed' "$(runs_of old)" "$count"
    kill -HUP "$(warden_of x)"
    until_true 30 ran new 6
    halt x
    once_each
}

checks_and_imports() {
    cat >"$CASE/tab" <<'END'
# a comment

backup tz=Europe/Berlin 30 2 * * * true
report @every 15m true
END
    exits 0 "$TENURE" cron check "$CASE/tab"
    out_has 'backup' 'T02:30:00+0' 'report'
    printf 'a 0 0 30 2 * true\nb tz=Mars/Base @daily true\nc @daily\nc2 @daily true\nc2 @hourly true\n*/5 * * * * x\n' >"$CASE/bad"
    printf 'd * * * * * * true\ne tz=UTC missed=all tz=UTC @daily true\nf max-late=0s @daily true\n' >>"$CASE/bad"
    exits 1 "$TENURE" cron check "$CASE/bad"
    err_has 'bad:1:3: this schedule never comes' "bad:2:6: there is no time zone 'Mars/Base'" 'bad:3:9: the command is missing' \
        "bad:5:1: another job has the name 'c2'" 'bad:6:1: a line begins with the name of the job' \
        "bad:7:13: the command begins with '*': a schedule has five fields" 'bad:8:21: tz is given twice' \
        'bad:9:12: max-late is at least 1s'
    printf 'MAILTO=root\n*/5 * * * * /usr/bin/backup --all >/dev/null\n@daily date +\\%%F\n@reboot true\n' >"$CASE/user"
    exits 1 "$TENURE" cron import "$CASE/user"
    out_has 'backup-2 */5 * * * * /usr/bin/backup --all >/dev/null' 'date-3 @daily date +%F' '# line 4'
    "$TENURE" cron import "$CASE/user" >"$CASE/made" 2>/dev/null || :
    exits 0 "$TENURE" cron check "$CASE/made"
    exits 2 "$TENURE" cron
    exits 2 "$TENURE" cron check
    exits 1 "$TENURE" cron check "$CASE/nothing"
    exits 2 "$TENURE" cron "$CASE/nothing"
    chmod 666 "$CASE/tab"
    exits 2 "$TENURE" cron "$CASE/tab"
    err_has "all users can write $CASE/tab" 'chmod o-w'
}

it 'each instant of each job runs once in the fleet' on_store runs_across_the_fleet
it 'hosts that are killed neither repeat nor forget an instant' on_store survives_kills
it 'a deployment, one host after the other, loses none' on_store a_deployment_loses_nothing
it 'a run says how it ended' on_store says_how_it_ended
it 'the file is read again when it changes, and a wrong line does not stop the others' on_store is_read_again
it 'a file is checked, and a crontab imported' checks_and_imports
finish
