#!/bin/sh
# Three hosts with the same schedule: node-cron, from npm, runs each instant on each of them, and `tenure cron` runs it once.
# It needs npm and its registry; without them it is left out.
RIVAL=node-cron@4.2.1
# Before tap.sh, which starts this script again without the settings of a proxy.
if [ -z "${CRON_RIVAL:-}" ]; then
    CRON_RIVAL=$(mktemp -d)
    export CRON_RIVAL
    if command -v npm >/dev/null; then
        timeout 120 npm install --prefix "$CRON_RIVAL" --ignore-scripts --no-audit --no-fund "$RIVAL" \
            >"$CRON_RIVAL/log" 2>&1 || :
    fi
fi
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

runs() { [ "$(grep -c "^$1 " "$CASE/runs" 2>/dev/null)" -ge "$2" ]; }

compare() {
    [ -d "$CRON_RIVAL/node_modules/node-cron" ] || {
        echo "$RIVAL cannot be installed here: nothing was compared"
        return 0
    }
    cat >"$CRON_RIVAL/rival.cjs" <<'END_OF_RIVAL'
const cron = require('node-cron');
const { appendFileSync } = require('fs');
cron.schedule('* * * * * *', () => appendFileSync(process.argv[2], `rival ${new Date().toISOString().slice(0, 19)}\n`));
END_OF_RIVAL
    # shellcheck disable=SC2016
    echo 'job missed=all @every 1s echo "tenure $TENURE_INSTANT" >>'"$CASE/runs" >"$CASE/tab"
    for name in x y z; do
        background "rival-$name" node "$CRON_RIVAL/rival.cjs" "$CASE/runs"
        background "$name" "$TENURE" cron "$CASE/tab" --name $name --ttl "${TTL}ms" --renew "${RENEW}ms" \
            --settle "${SETTLE}ms" --log-format json
        echo "$PID" >"$CASE/$name.pid"
    done
    until_true 60 runs tenure 6
    until_true 60 runs rival 18
    halt x y z
    rival_times=$(grep '^rival' "$CASE/runs" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')
    tenure_times=$(grep '^tenure' "$CASE/runs" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')
    [ "$rival_times" -ge 3 ] || fail "node-cron ran an instant $rival_times times on three hosts"
    same 'how often tenure cron ran an instant at most' "$tenure_times" 1
}

it 'on three hosts node-cron runs an instant three times, and tenure cron once' on_store compare
rm -rf "$CRON_RIVAL"
finish
