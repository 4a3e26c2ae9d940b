# Fleets of real agents for the end-to-end tests; sourced after tap.sh. Each case has its own store; the polls of all of
# its agents go to one log ($LOG), which tests/lib/fleet_check.py judges alone. With FLEET_STORE=redis in the environment
# the cases that can be run on any store (`it SENTENCE on_store FUNCTION`) run on a Redis instead of SQLite, with
# FLEET_STORE=http through a `tenure serve`, with FLEET_STORE=etcd on one etcd member, with FLEET_STORE=postgres on a
# PostgreSQL.
# shellcheck shell=sh disable=SC2034 # WARDEN and the takeover's numbers are for the tests

POLLER=${FLEET_POLLER:?the path of fleet_poller}
CHECK=$TENURE_SOURCE/tests/lib/fleet_check.py
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
FLEET_STORE=${FLEET_STORE:-sqlite}
case $FLEET_STORE in
sqlite) ;;
redis)
    # shellcheck source=tests/lib/redis.sh
    . "$TENURE_SOURCE/tests/lib/redis.sh"
    ;;
http)
    # shellcheck source=tests/lib/manager.sh
    . "$TENURE_SOURCE/tests/lib/manager.sh"
    ;;
etcd)
    # shellcheck source=tests/lib/etcd.sh
    . "$TENURE_SOURCE/tests/lib/etcd.sh"
    ;;
postgres)
    # shellcheck source=tests/lib/postgres.sh
    . "$TENURE_SOURCE/tests/lib/postgres.sh"
    ;;
*)
    echo "FLEET_STORE is sqlite, redis, http, etcd or postgres, not '$FLEET_STORE'" >&2
    exit 2
    ;;
esac
on_sqlite() { [ "$FLEET_STORE" = sqlite ]; }
on_store() {
    case $FLEET_STORE in
    redis) redis_store ;;
    http) manager_up --log-level warn ;;
    etcd) etcd_up ;;
    postgres)
        trap store_remove EXIT
        postgres_up
        TENURE_STORE=$DIRECT_URL
        export TENURE_STORE
        make_store
        ;;
    sqlite) make_store ;;
    esac
    "$@"
}
# store_remove: what is outside of the case's directory.
store_remove() {
    if [ -n "${POSTGRES:-}" ]; then postgres_remove; fi
}
# go_away / come_back: the store (SQLite in $CASE/db, or a Redis) is out of reach. lock_store / unlock_store: it does not
# answer.
go_away() { if on_sqlite; then mv "$CASE/db" "$CASE/away"; else redis_stop; fi; }
come_back() { if on_sqlite; then mv "$CASE/away" "$CASE/db"; else redis_start_again; fi; }
lock_store() {
    if ! on_sqlite; then
        freeze "$REDIS"
        return
    fi
    background locker "$PYTHON" -c '
import sqlite3, sys, time
store = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
store.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(1000)' "${TENURE_STORE#sqlite:}"
    LOCKER=$PID
    until_true 5 grep -q locked "$CASE/locker.out"
}
unlock_store() { if on_sqlite; then kill -KILL "$LOCKER"; else kill -CONT "$REDIS"; fi; }
# make_store: the file is there and has its tables, so that those who are started together do not wait for each other.
make_store() { "$TENURE" target add made --namespace made >"$CASE/made" 2>&1 || :; }
# first_token TARGET: of its first grant. On Redis it depends on the time, on etcd on what was written before: there it is
# the lowest that an agent has told.
first_token() {
    if [ "$FLEET_STORE" != redis ] && [ "$FLEET_STORE" != etcd ]; then
        echo 1
    else
        cat "$CASE"/*.err | grep -F '"event":"lease_acquired"' | sed -n "s/.*\"target\":\"$1\",\"token\":\([0-9]*\).*/\1/p" |
            sort -n | head -n 1
    fi
}

# The timing of a case's fleet, in ms.
TTL=1500
RENEW=400
STORE_LATE=0 # by which a lease may outlive its TTL there
if [ "$FLEET_STORE" = etcd ]; then
    TTL=2000
    RENEW=500
    STORE_LATE=1500
fi
# steady_ttl MS: for a case in which nobody may lose a lease that is renewed. The TTL is that, and so much longer that the
# store answers many times in it on a machine as busy as this one.
steady_ttl() {
    fleet_slowest=0
    for fleet_each in 1 2 3 4 5; do
        fleet_begin=$(boot_ms)
        make_store
        fleet_took=$(($(boot_ms) - fleet_begin))
        if [ "$fleet_took" -gt "$fleet_slowest" ]; then fleet_slowest=$fleet_took; fi
    done
    TTL=$(($1 + 10 * fleet_slowest))
    RENEW=$((TTL / 6))
    echo "TTL: $TTL ms"
}
SETTLE=300
EVERY=200
LASTS=60 # a poll
POLL_OPTIONS=
NAMESPACE=auto
UNDER=      # a command that the agents are started by
FROM=store # where they find the targets

# targets COUNT: registers t-1 ... t-COUNT; TARGETS is their list with commas.
targets() {
    TARGETS=$(seq -s, -f 't-%g' 1 "$1")
    # shellcheck disable=SC2046
    "$TENURE" target add $(seq -f 't-%g' 1 "$1")
}
# targets_in_file COUNT: the same in a file, for stores that lose what they have.
targets_in_file() {
    TARGETS=$(seq -s, -f 't-%g' 1 "$1")
    seq -f 't-%g' 1 "$1" >"$CASE/targets"
    FROM=file:$CASE/targets
}

# bare_agent NAME OPTION...: an agent with the case's timing. $WARDEN is its process, also in $CASE/NAME.pid; its output
# is in NAME.out and NAME.err.
bare_agent() {
    LOG=$CASE/polls
    fleet_name=$1
    shift
    # shellcheck disable=SC2086
    background "$fleet_name" $UNDER "$TENURE" agent --name "$fleet_name" --ttl "${TTL}ms" --renew "${RENEW}ms" \
        --settle "${SETTLE}ms" --every "${EVERY}ms" --pid-namespace "$NAMESPACE" --log-format json "$@"
    WARDEN=$PID
    echo "$PID" >"$CASE/$fleet_name.pid"
}

# agent NAME OPTION...: as above, with the case's targets and the poller that keeps the log.
agent() {
    fleet_given=$1
    shift
    bare_agent "$fleet_given" --targets "$FROM" --poll "exec:exec $POLLER $CASE/polls poll $LASTS $POLL_OPTIONS" \
        --publish "file:$CASE/$fleet_given.messages" "$@"
}

# too_late_at_start NAME: it has ended because its store did not answer at its start within the time that its TTL allows.
too_late_at_start() { grep -Eq 'time-out| in time' "$CASE/$1.err"; }

warden_of() { cat "$CASE/$1.pid"; }

# worker_of NAME: the process id of the warden's worker; empty when there is none. (For a moment after a crash there is
# also the process that gives the leases back; it is older than the new worker.)
worker_of() {
    fleet_warden=$(warden_of "$1")
    fleet_worker=
    for fleet_child in $(cat "/proc/$fleet_warden/task/$fleet_warden/children" 2>/dev/null); do
        fleet_worker=$fleet_child
    done
    echo "$fleet_worker"
}
has_worker_other_than() {
    fleet_found=$(worker_of "$1")
    [ -n "$fleet_found" ] && [ "$fleet_found" != "$2" ]
}

# instance_of NAME: the id of the youngest live instance of that name. On a busy machine it may be late with its heartbeat, or
# the store with its answer: then it is looked for again.
instance_of() {
    fleet_tries=0
    until "$TENURE" nodes --json 2>/dev/null | sed -n "s/^{\"instance\":\"\($1-[0-9]*-[0-9a-f]*\)\".*/\1/p" | tail -n 1 | grep .; do
        fleet_tries=$((fleet_tries + 1))
        [ "$fleet_tries" -lt 300 ] || return 1
        sleep 0.1
    done
}

mark() { "$POLLER" "$LOG" mark "$1"; }
boot_ms() { "$POLLER" now; }
pause_ms() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

# ---- what the fleet looks like

# held_by NAME: how many targets instances of that name hold.
held_by() { "$TENURE" ls --json | grep -c "\"instance\":\"$1-[0-9]*-[0-9a-f]*\"" || :; }
holds() { [ "$(held_by "$1")" -eq "$2" ]; }
holds_between() {
    fleet_held=$(held_by "$1")
    [ "$fleet_held" -ge "$2" ] && [ "$fleet_held" -le "$3" ]
}
# spread LEAST MOST NAME...: each holds so many.
spread() {
    fleet_least=$1
    fleet_most=$2
    shift 2
    for fleet_each in "$@"; do holds_between "$fleet_each" "$fleet_least" "$fleet_most" || return 1; done
}
# all_there COUNT: so many instances know of each other and take part. Targets that come before that may all go to the first
# one, and polls that are long are not handed over.
all_there() {
    until_true 15 instances_are "$1"
    pause_ms "$((SETTLE + 500 + $(late_ms)))"
}
instances_are() { [ "$("$TENURE" nodes 2>/dev/null | wc -l)" -eq "$1" ]; }
# all_polled [MARK]: each of TARGETS was polled (since the mark).
all_polled() {
    awk -v wanted="$TARGETS" -v mark="${1:-}" '
        BEGIN { on = mark == "" }
        $3 == "mark" && $4 == mark { on = 1; delete seen }
        on && $3 == "start" { seen[$4] = 1 }
        END { n = split(wanted, list, ","); for (i = 1; i <= n; i++) if (!(list[i] in seen)) exit 1 }' "$LOG"
}
# holders_polled: whoever holds one of TARGETS has polled it last. What has just been handed over may still wait for that.
holders_polled() {
    all_polled '' || return 1
    "$TENURE" ls --json | sed -n 's/^{"target":"\([^"]*\)".*"instance":"\([^"]*\)".*/\1 \2/p' >"$CASE/holders"
    awk -v log_file="$LOG" 'FILENAME == log_file { if ($3 == "start") last[$4] = $6; next } last[$1] != $2 { exit 1 }' \
        "$LOG" "$CASE/holders"
}
# polled TARGET [MARK]
polled() {
    awk -v target="$1" -v mark="${2:-}" '
        BEGIN { on = mark == "" }
        $3 == "mark" && $4 == mark { on = 1; found = 0 }
        on && $3 == "start" && $4 == target { found = 1 }
        END { exit !found }' "$LOG"
}
# polled_by NAME [MARK]
polled_by() {
    awk -v name="$1" -v mark="${2:-}" '
        BEGIN { on = mark == "" }
        $3 == "mark" && $4 == mark { on = 1; found = 0 }
        on && $3 == "start" && index($6, name "-") == 1 { found = 1 }
        END { exit !found }' "$LOG"
}
# taken_from TARGET INSTANCE: somebody else has polled it last.
taken_from() {
    [ "$(awk -v target="$1" '$3 == "start" && $4 == target { last = $6 } END { print last }' "$LOG")" != "$2" ]
}
# all_taken_from INSTANCE: whatever it has polled.
all_taken_from() {
    for fleet_each in $(awk -v instance="$1" '$3 == "start" && $6 == instance { print $4 }' "$LOG" | sort -u); do
        taken_from "$fleet_each" "$1" || return 1
    done
}
# hands_since MARK: how often a target has changed hands since.
hands_since() {
    awk -v mark="$1" '
        $3 == "mark" && $4 == mark { on = 1; count = 0 }
        $3 == "start" { count += on && ($4 in token) && token[$4] != $5; token[$4] = $5 }
        END { print count + 0 }' "$LOG"
}
# no_poll_between FROM UNTIL: no line of a poller from the one mark to the other.
no_poll_between() {
    awk -v from="$1" -v until="$2" '
        $3 == "mark" && $4 == from { on = 1; next }
        $3 == "mark" && $4 == until { on = 0 }
        on && $3 != "mark" { print "polled: " $0; found = 1; exit }
        END { exit found }' "$LOG" || fail "something was polled between $1 and $2"
}
starts_of() { awk -v target="$1" '$3 == "start" && $4 == target { n++ } END { print n + 0 }' "$LOG"; }

# ---- judgements

# sound [OPTION...]: what fleet_check.py says of the log. With FLEET_KEEP=DIRECTORY in the environment, a case that fails
# leaves its files there.
sound() {
    echo "\$ fleet_check.py check $*"
    "$PYTHON" "$CHECK" "$LOG" check "$@" --late "$(late_ms)" || {
        tail -n 15 "$CASE"/*.err
        if [ -n "${FLEET_KEEP:-}" ]; then cp -r "$CASE" "$FLEET_KEEP"; fi
        fail 'the log of the polls is not as it has to be'
    }
}

# takeover MARK INSTANCE: MOVED targets, the first after FIRST ms, the last after LAST ms.
takeover() {
    # shellcheck disable=SC2046
    set -- $("$PYTHON" "$CHECK" "$LOG" takeover "$1" "$2")
    MOVED=$1
    FIRST=$2
    LAST=$3
    echo "takeover: $MOVED targets, $FIRST to $LAST ms after the mark"
    [ "$MOVED" -gt 0 ] || fail 'nothing was taken over, so nothing was tested'
}
# last_of MARK INSTANCE: ms from the mark to the last sign of life of its pollers.
last_of() { "$PYTHON" "$CHECK" "$LOG" last "$1" "$2"; }

# kill_host NAME: its warden and its worker at once, as when a host dies. The worker may be gone by then: its warden's
# death ends it.
kill_host() {
    fleet_worker=$(worker_of "$1")
    kill -KILL "$(warden_of "$1")"
    kill -KILL "$fleet_worker" 2>/dev/null || :
}

# is_gone PID: it no longer runs (a zombie does not run).
is_gone() {
    fleet_state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null || :)
    [ -z "$fleet_state" ] || [ "$fleet_state" = Z ] || [ "$fleet_state" = X ]
}
# pollers: processes that have the case's log among their arguments, and are not agents; with few processes of its own.
pollers() {
    for fleet_process in $(grep -lszxF -e "$CASE/polls" /proc/[0-9]*/cmdline || :); do
        case $(tr '\0' ' ' 2>/dev/null <"$fleet_process" || :) in
        "$POLLER $CASE/polls poll"*) basename "${fleet_process%/cmdline}" ;;
        esac
    done
}
no_pollers() { [ -z "$(pollers)" ]; }

# stop NAME: asks it to stop; it must end with 0.
stop() {
    kill -TERM "$(warden_of "$1")" 2>/dev/null || : # it may have ended already; its exit code is looked at
    ended 0 "$(warden_of "$1")"
}
# halt NAME...: stops what may still run, whatever comes of it.
halt() {
    for fleet_each in "$@"; do kill -TERM "$(warden_of "$fleet_each")" 2>/dev/null || :; done
    for fleet_each in "$@"; do
        until_true 30 is_gone "$(warden_of "$fleet_each")"
        wait "$(warden_of "$fleet_each")" 2>/dev/null || :
    done
}

# said NAME TEXT...: its log has a line with all of these.
said() {
    fleet_file=$CASE/$1.err
    shift
    fleet_lines=$(cat "$fleet_file")
    for fleet_text in "$@"; do
        fleet_lines=$(printf '%s\n' "$fleet_lines" | grep -F -e "$fleet_text") || return 1
    done
}
# logged_ms NAME EVENT FROM: ms from that wall time until its log first tells of the event; "never".
logged_ms() {
    "$PYTHON" -c '
import datetime, json, sys
path, event, since = sys.argv[1], sys.argv[2], int(sys.argv[3])
for line in open(path, encoding="utf-8"):
    entry = json.loads(line)
    at = datetime.datetime.fromisoformat(entry["ts"].replace("Z", "+00:00")).timestamp() * 1000
    if entry["event"] == event and at >= since:
        print(round(at - since))
        break
else:
    print("never")' "$CASE/$1.err" "$2" "$3"
}
times_said() { grep -c -F -e "$2" "$CASE/$1.err" || :; }

# ---- messages

has_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }

# first_message FILE TARGET [NAMESPACE]: checks its form, as docs describe it, and leaves its members in
# OUT; DATA is data as JSON.
first_message() {
    OUT=$(grep -m 1 -F "\"target\":\"$2\"" "$1") || fail "no message of $2 in $1"
    DATA=$(printf '%s\n' "$OUT" | "$PYTHON" -c '
import json, re, sys
target, namespace = sys.argv[1:]
line = sys.stdin.read()
message = json.loads(line)
keys = ["target"] + (["scene_id"] if namespace == "scenes" else [])
keys += ["instance", "_version", "at", "ok", "duration_ms", "data" if message["ok"] else "error"]
assert sorted(message) == sorted(keys), sorted(message)
assert message["target"] == target
if namespace == "scenes":
    assert message["scene_id"] == target
assert re.fullmatch(r"[A-Za-z0-9.-]+-[0-9]{19}-[0-9a-f]{8}", message["instance"]), message["instance"]
assert type(message["_version"]) is int and message["_version"] >= 1
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message["at"]), message["at"]
assert type(message["ok"]) is bool and type(message["duration_ms"]) is int
if not message["ok"]:
    assert isinstance(message["error"], str) and message["error"]
print(json.dumps(message.get("data")))' "$2" "${3:-poll}") || fail "the message is not as it has to be: $OUT"
}

# ---- PID namespaces

# The two ways in which an agent ends what a poll has started: as the kernel's PID namespaces allow, and by walking
# through the processes. Root has the first unless it gives up a capability.
has_namespaces() { unshare --pid --fork true 2>/dev/null; }
without_namespaces() {
    if has_namespaces; then UNDER='setpriv --bounding-set=-sys_admin'; fi
    NAMESPACE=off
    "$@"
}
