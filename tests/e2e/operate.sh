# What an operator asks at three in the morning: the history, metrics of every kind of process, and the doctor's view of
# the fleet. promtool judges names, types and alert rules.
# shellcheck shell=sh source=tests/lib/tap.sh
. "$TENURE_SOURCE/tests/lib/tap.sh"
# shellcheck source=tests/lib/manager.sh
. "$TENURE_SOURCE/tests/lib/manager.sh"

# served NAME: the address of the metrics of the background process of that name, as its log tells.
served() {
    until_true 10 grep -q event=metrics_served "$CASE/$1.err"
    sed -n 's/.*event=metrics_served .*address=\([^ ]*\).*/\1/p' "$CASE/$1.err"
}

# scraped ADDRESS: its page in $CASE/page, accepted by promtool without a remark.
scraped() {
    curl -sf "http://$1/metrics" >"$CASE/page" || fail "no metrics at $1"
    promtool check metrics <"$CASE/page" || fail 'promtool has something to say'
}

# sample NAME: the value of the sample of that name and these labels.
sample() {
    awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$CASE/page" || fail "there is no $1"
}

# ---- history

history_of_a_target() {
    exits 0 "$TENURE" acquire job-1 --ttl 30s
    token=$OUT
    sleep 0.2
    exits 0 "$TENURE" release job-1 --token "$token"
    sleep 0.2
    exits 0 "$TENURE" acquire job-1 --name second
    exits 0 "$TENURE" acquire job-2
    exits 0 "$TENURE" release job-1 --force --now
    exits 0 "$TENURE" history job-1
    same lines "$(printf '%s\n' "$OUT" | wc -l)" 4
    same columns "$(printf '%s\n' "$OUT" | awk -F '\t' '{ print NF }' | sort -u)" 12
    same events "$(printf '%s\n' "$OUT" | cut -f 3 | tr '\n' ' ')" 'lease_acquired lease_released lease_acquired lease_released '
    printf '%s\n' "$OUT" | awk -F '\t' 'NR == 2 && $8 ~ /^[2-9][0-9][0-9]ms|^[1-9]/ && $9 == "-" { held = 1 }
        NR == 3 && $8 == "-" && $9 ~ /^[2-9][0-9][0-9]ms|^[1-9]/ && $4 ~ /^second-/ { unheld = 1 }
        NR == 4 && $6 == "forced" && $7 != "-" { forced = 1 } END { exit !(held && unheld && forced) }' ||
        fail 'how long it was held or free, or by whom it was forced, is missing'
    exits 0 "$TENURE" history --limit 1 --json
    all_json
    same event "$(field event)" lease_released
    same reason "$(field reason)" forced
    between held "$(field held_ms)" 1 60000
    exits 0 "$TENURE" history --since 1ms
    same lines "$OUT" ''
    exits 0 "$TENURE" history job-1 --since 1ms
    exits 1 "$TENURE" history never-heard-of
    err_has 'there is no target never-heard-of'
    same lines "$OUT" ''
}

history_mistakes() {
    exits 2 "$TENURE" history a b
    exits 2 "$TENURE" history 'no such id'
    exits 2 "$TENURE" history --since yesterday
    exits 2 "$TENURE" history --limit 0
}

# ---- a registry that somebody wrote into by hand

broken_spec() {
    exits 0 "$TENURE" target add good --spec '{"a": [1, 2]}'
    exits 0 "$TENURE" target add bad --spec 1
    sqlite3 "${TENURE_STORE#sqlite:}" "UPDATE record SET value = '1 spec={oops' WHERE key LIKE '% 3bad'"
    exits 0 "$TENURE" target ls --json
    all_json
    out_has '"spec":{"a": [1, 2]}'
    out_has '"spec":"{oops"'
    MANAGER_STORE=$TENURE_STORE
    manager_up
    OUT=$(curl -sf "$TENURE_STORE/api/v1/poll") || fail 'no list of targets'
    printf '%s\n' "$OUT" | python3 -m json.tool >/dev/null || fail 'the list of targets is not JSON'
    out_has '"spec":"{oops"'
    exits 0 "$TENURE" target ls
    same targets "$(printf '%s\n' "$OUT" | wc -l)" 2
}

# ---- metrics

agent_metrics() {
    exits 0 "$TENURE" target add t-1 t-2
    background agent "$TENURE" agent --targets store --poll 'exec:echo 1' --every 200ms --ttl 1500ms --settle 100ms --metrics 0
    agent=$PID
    address=$(served agent)
    same host "${address%:*}" 127.0.0.1
    has_polled() { scraped "$address" && [ "$(sample 'tenure_polls_total{namespace="poll",result="ok"}')" -ge 2 ]; }
    until_true 10 has_polled
    is_settled() { scraped "$address" && [ "$(sample 'tenure_leases_held{namespace="poll"}')" = 2 ] && [ "$(sample 'tenure_renew_margin_seconds_count{namespace="poll"}')" -ge 1 ]; }
    until_true 10 is_settled
    same planned "$(sample 'tenure_leases_planned{namespace="poll"}')" 2
    same unowned "$(sample 'tenure_targets_unowned{namespace="poll"}')" 0
    same errors "$(sample 'tenure_store_errors_total{store="sqlite"}')" 0
    same up "$(sample tenure_store_up)" 1
    sample 'tenure_takeovers_total{namespace="poll",reason="expired"}'
    sample 'tenure_targets_unowned_seconds_max{namespace="poll"}'
    sample 'tenure_renew_seconds_bucket{namespace="poll",le="+Inf"}'
    same 'another path' "$(curl -s -o "$CASE/none" -w '%{http_code}' "http://$address/")" 404
    same 'another method' "$(curl -s -o "$CASE/none" -w '%{http_code}' -d x "http://$address/metrics")" 405
    kill "$agent"
    ended 0 "$agent"
}

role_metrics() {
    background lead "$TENURE" elect cleanup --ttl 1500ms --metrics 127.0.0.1:0 -- sleep 60
    lead=$PID
    address=$(served lead)
    leads() { scraped "$address" && [ "$(sample 'tenure_leader_status{namespace="leader",role="cleanup",kind="elect"}')" = 1 ]; }
    until_true 10 leads
    # By IPv6, where the machine has it.
    here='[::1]'
    if ! grep -qs '^0\{31\}1 ' /proc/net/if_inet6; then here=127.0.0.1; fi
    background follow "$TENURE" elect cleanup --ttl 1500ms --metrics "$here:0" -- sleep 60
    scraped "$(served follow)"
    same follower "$(sample 'tenure_leader_status{namespace="leader",role="cleanup",kind="elect"}')" 0
    same slots "$(sample 'tenure_leader_slots{namespace="leader",role="cleanup"}')" 1
    same never "$(sample 'tenure_leader_last_renewal_timestamp_seconds{namespace="leader",role="cleanup"}')" 0.000
    scraped "$address"
    at=$(sample 'tenure_leader_last_renewal_timestamp_seconds{namespace="leader",role="cleanup"}')
    between 'age of the last renewal' "$(($(date +%s) - ${at%.*}))" 0 60
    kill "$lead"
    ended 0 "$lead"
    address=$(served follow)
    until_true 10 leads
    took_over() { scraped "$address" && [ "$(sample 'tenure_takeovers_total{namespace="leader",reason="shutdown"}')" = 1 ]; }
    until_true 5 took_over
}

guard_metrics() {
    exits 0 "$TENURE" acquire t-1
    mkfifo "$CASE/in"
    background guard "$TENURE" guard --in "$CASE/in" --metrics 0
    exec 9>"$CASE/in"
    printf '{"target":"t-1","_version":%s}\n{"target":"t-1","_version":99}\n{}\n' "$OUT" >&9
    address=$(served guard)
    has_judged() { scraped "$address" && [ "$(sample 'tenure_messages_refused_total{namespace="poll"}')" = 2 ]; }
    until_true 10 has_judged
    same passed "$(sample 'tenure_messages_passed_total{namespace="poll"}')" 1
    same stale "$(sample 'tenure_stale_refused_total{namespace="poll"}')" 0
    exits 0 "$TENURE" release t-1 --token 1
    exits 0 "$TENURE" acquire t-1
    printf '{"target":"t-1","_version":2}\n{"target":"t-1","_version":1}\n' >&9
    has_refused() { scraped "$address" && [ "$(sample 'tenure_stale_refused_total{namespace="poll"}')" = 1 ]; }
    until_true 10 has_refused
    exec 9>&-
}

bad_addresses() {
    for address in 127.0.0.1 here:80 :x 127.0.0.1:99999999 65536 ''; do
        exits 2 "$TENURE" elect cleanup --metrics "$address" -- true
        err_has 'is no address'
    done
    background first "$TENURE" elect cleanup --metrics 0 -- sleep 60
    address=$(served first)
    exits 1 "$TENURE" elect other --metrics "$address" -- true
    err_has 'cannot serve metrics'
}

serve_metrics() {
    manager_up
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" target add never-taken
    address=${TENURE_STORE#http://}
    scraped "$address"
    same up "$(sample tenure_store_up)" 1
    same held "$(sample 'tenure_leases_held{namespace="poll"}')" 1
    same unowned "$(sample 'tenure_targets_unowned{namespace="poll"}')" 1
    exits 0 "$TENURE" release job-1 --force --now
    exits 0 "$TENURE" acquire job-1
    sleep 6 # it looks every 5 s
    has_looked() { scraped "$address" && [ "$(sample 'tenure_takeovers_total{namespace="poll",reason="forced"}')" = 1 ]; }
    until_true 10 has_looked
    same takeovers "$(sample 'tenure_takeovers_total{namespace="poll",reason="forced"}')" 1
    unowned=$(sample 'tenure_targets_unowned_seconds_max{namespace="poll"}')
    between 'longest unowned' "${unowned%.*}" 5 60
}

# A lock that waits, and a role of which several lead: what the alerts tell them by.
kinds_of_roles() {
    background lock "$TENURE" lock deploy -- sleep 60
    until_true 30 "$TENURE" owner deploy --namespace lock
    background waits "$TENURE" lock deploy --metrics 127.0.0.1:0 -v -- true
    scraped "$(served waits)"
    same 'who waits for a lock' "$(sample 'tenure_leader_status{namespace="lock",role="deploy",kind="lock"}')" 0
    background pool "$TENURE" elect pool --count 2 --metrics 127.0.0.1:0 -- sleep 60
    scraped "$(served pool)"
    same 'slots' "$(sample 'tenure_leader_slots{namespace="leader",role="pool"}')" 2
    background once "$TENURE" once nightly --metrics 127.0.0.1:0 -v -- sleep 60
    scraped "$(served once)"
    sample 'tenure_leader_status{namespace="leader",role="nightly",kind="once"}'
}

# ---- rules and dashboard

alert_rules() {
    promtool check rules "$TENURE_SOURCE/packaging/prometheus/tenure-alerts.yml"
    promtool test rules "$TENURE_SOURCE/packaging/prometheus/tenure-alerts.test.yml"
}

# What the dashboard and the rules ask for is what some process tells.
known_names() {
    grep -ohE 'tenure_[a-z_]+' "$TENURE_SOURCE"/src/agent/common/exporter_text.c "$TENURE_SOURCE"/src/server/*.c | sort -u >"$CASE/known"
    python3 -m json.tool "$TENURE_SOURCE/packaging/grafana/tenure.json" >/dev/null
    for file in grafana/tenure.json prometheus/tenure-alerts.yml; do
        grep -ohE 'tenure_[a-z_]+' "$TENURE_SOURCE/packaging/$file" | sed 's/_\(bucket\|sum\|count\)$//' | sort -u >"$CASE/asked"
        [ -s "$CASE/asked" ]
        unknown=$(comm -23 "$CASE/asked" "$CASE/known")
        same "names in $file that nobody tells" "$unknown" ''
    done
}

# ---- doctor

# announce INSTANCE WEIGHT VERSION: a heartbeat by REST.
announce() {
    printf '{"holder_id":"%s","ops":[{"op":"announce","ttl_ms":30000,"weight":%s,"metadata":"{\\"version\\":\\"%s\\"}"}]}' "$1" "$2" "$3" |
        curl -sf -d @- "$TENURE_STORE/api/v1/poll/leases" | grep -q '"ok"' || fail "$1 was not announced"
}

mixed_versions() {
    manager_up
    announce a-1 1 0.1.0
    announce b-1 1 0.1.0
    exits 0 "$TENURE" doctor
    out_has "ok    fleet's versions" '2 of version 0.1.0' 'ok    instance ids' "ok    server's clock"
    announce c-1 1 9.9.9
    exits 0 "$TENURE" doctor
    out_has "warn  fleet's versions" '1 of version 9.9.9' 'finish the deploy'
}

shared_id() {
    manager_up
    for weight in 1 2 1 2 1 2 1 2 1; do announce tracker-0 "$weight" 0.1.0; done
    exits 1 "$TENURE" doctor
    out_has 'FAIL  instance ids' 'tracker-0 announced itself differently' 'an id of its own'
}

ttl_of_the_fleet() {
    exits 0 "$TENURE" target add t-1
    background agent "$TENURE" agent --targets store --poll 'exec:echo 1' --ttl 7s
    agent=$PID
    is_there() { "$TENURE" nodes | grep -q live; }
    until_true 10 is_there
    exits 0 "$TENURE" doctor
    out_has 'TTL 7.0s leaves' "1 of version $("$TENURE" version | sed -n 's/^tenure \([0-9.]*\).*/\1/p')"
    kill "$agent"
    ended 0 "$agent"
}

# lose_data: the file looks as if it had been restored from a backup.
lose_data() {
    python3 -c 'import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("VACUUM")' "${TENURE_STORE#sqlite:}" || fail 'no VACUUM'
}

end_of_recovery() {
    exits 0 "$TENURE" acquire job-1 --ttl 10m
    exits 0 "$TENURE" doctor
    out_has 'ok    recovery'
    exits 0 "$TENURE" doctor --end-recovery
    out_has 'newcomers did not have to wait'
    lose_data
    exits 4 "$TENURE" acquire job-2
    err_has 'the store is recovering'
    exits 0 "$TENURE" doctor
    out_has 'warn  recovery' 'newcomers wait for 9m' 'tenure doctor --end-recovery'
    exits 0 "$TENURE" doctor --end-recovery
    out_has 'ok    end of recovery' "by $(id -un)@$(uname -n)" 'ok    recovery'
    exits 0 "$TENURE" acquire job-2
    exits 0 "$TENURE" history
    printf '%s\n' "$OUT" | grep 'store_recovering.*forced' | grep -q "$(id -un)@$(uname -n)" ||
        fail 'the history does not say who ended the recovery'
    manager_up
    exits 1 "$TENURE" doctor --end-recovery
    err_has 'name the store behind it'
}

it 'history tells who had a target, for how long, how long it was free, and who forced it' history_of_a_target
it 'history refuses what it does not understand' history_mistakes
it 'a spec in the store that is not JSON is shown as a string' broken_spec
it "an agent's metrics are Prometheus', on this host alone unless told otherwise" agent_metrics
it "a candidate's metrics tell who leads, and how it came to that" role_metrics
it 'metrics tell a lock from a role, and how many may lead' kinds_of_roles
it "a guard's metrics count what it passed and refused" guard_metrics
it 'metrics at a place that is none are refused with the reason' bad_addresses
it "a server's metrics are Prometheus', too" serve_metrics
it 'the alert rules fire for what they are for, and for nothing else' alert_rules
it 'the dashboard and the rules ask for metrics that exist' known_names
it 'doctor finds two versions in a fleet' mixed_versions
it 'doctor finds two processes that use one id' shared_id
it 'doctor judges the TTL that the fleet uses' ttl_of_the_fleet
it 'doctor says how long a recovery lasts, ends it when it is asked to, and the history says who did' end_of_recovery
finish
