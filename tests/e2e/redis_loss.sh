#!/bin/sh
# Three agents on a Redis that forgets: FLUSHALL at random, and now and then it is killed and comes back empty, with what
# it had, or with an older copy of that. Agents are killed, stopped and replaced meanwhile, and one of them is cut off at
# times and cannot put back what was forgotten. No target is polled twice at a time, no token is ever lower, and
# everything is polled again within the bound. Targets are in a file, so that FLUSHALL does not take them away.
#     redis_loss.sh [--seconds N] [--seed S] [--store-options OPTIONS]
# 60 seconds and more is the long form: a TTL of 3 s, and a loss each 5 to 20 s. By hand:
#     TENURE=build/tenure FLEET_POLLER=build/tests/e2e/fleet_poller TENURE_SOURCE=. tests/e2e/redis_loss.sh --seconds 180
# With --store-options fresh=1, which GUARANTEES says is not for this, the judge has to find an overlap.
SECONDS_WANTED=25
SEED=$(date +%s)
STORE_OPTIONS=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) SECONDS_WANTED=${2:?} ;;
    --seed) SEED=${2:?} ;;
    --store-options) STORE_OPTIONS="?${2:?}" ;;
    *)
        echo "usage: redis_loss.sh [--seconds N] [--seed S] [--store-options OPTIONS]" >&2
        exit 2
        ;;
    esac
    shift 2
done
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

# schedule TTL: a line for each thing to do: when (ms from the beginning), what, to whom or with what.
schedule() {
    "$PYTHON" -c '
import random, sys
seed, seconds, ttl = map(int, sys.argv[1:])
random.seed(seed)
end, lines = seconds * 1000, []
gap = (5000, 20000) if seconds >= 60 else (2000, 5000)

# Losses. Before some of them c is cut off: it cannot put its leases back, and believes in them until its deadline.
at, kept, turn = 1000, 0, 0
while at < end:
    turn += 1
    kinds = ["flush"] * 4 + ["empty", "older", "same"]
    kind = ["flush", "empty", "older"][turn - 1] if turn <= 3 else random.choice(kinds)
    if turn % 2 == 1:
        before = random.randrange(0, 300)
        lines += [(at - before, "cut", "c"), (at - before + random.randrange(ttl * 3 // 4, ttl + 500), "whole", "c")]
    lines.append((at, kind, str(random.randrange(kept)) if kind == "older" and kept else ""))
    at += random.randrange(*gap)
    lines.append((at - random.randrange(200, 1900), "keep", str(kept)))
    kept += 1

# Harm to agents, one after the other, so that there is always somebody who can take over.
at = 1700
while at < end:
    name = random.choice("ab")
    what = random.choice(["host", "worker", "term", "stop"])
    lines.append((at, what, name))
    at += random.randrange(ttl, 2 * ttl)
    if what != "worker":
        lines.append((at, "continue" if what == "stop" else "start", name))
    at += random.randrange(2 * ttl, 3 * ttl)
for at, what, which in sorted(lines):
    if at < end or what in ("whole", "start", "continue"):
        print(at, what, which or "-")' "$SEED" "$SECONDS_WANTED" "$1"
}

loss_agent() { agent "$1" --timeout 20s --store "$URL"; }
started() {
    case $1 in c) URL=$(through p)$STORE_OPTIONS ;; *) URL=$TENURE_STORE$STORE_OPTIONS ;; esac
    loss_agent "$1"
}

# An epoch has begun since the loss, so it was one.
noticed() {
    if [ -n "$before" ]; then
        until_true 30 epoch_other_than "$before"
        losses=$((losses + 1))
    fi
    before=
}
# lose WHAT [NUMBER]
lose() {
    noticed
    before=$(epoch)
    mark "loss-$1"
    case $1 in
    flush) redis FLUSHALL >/dev/null ;;
    *)
        redis_kill
        case $1 in
        empty) redis_start_again empty ;;
        same) redis_start_again ;;
        older) if [ -d "$CASE/kept-$2" ]; then redis_start_again "$CASE/kept-$2"; else redis_start_again empty; fi ;;
        esac
        ;;
    esac
}

# harm WHAT NAME
harm() {
    worker=$(worker_of "$2")
    case $1 in
    host) kill -KILL "$(warden_of "$2")" $worker 2>/dev/null || : ;;
    worker) kill -KILL $worker 2>/dev/null || : ;;
    term) kill -TERM "$(warden_of "$2")" ;;
    stop) freeze $worker && stopped=$worker ;;
    continue) kill -CONT "$stopped" 2>/dev/null || : ;;
    start)
        wait "$(warden_of "$2")" 2>/dev/null || :
        cat "$CASE/$2.err" >>"$CASE/$2.earlier"
        started "$2"
        ;;
    esac
    mark "harm-$1-$2"
    harms=$((harms + 1))
}

forgets() {
    TTL=1500
    if [ "$SECONDS_WANTED" -ge 60 ]; then TTL=3000; fi
    RENEW=$((TTL / 4))
    # Up to two thirds of the TTL: a poll under way is what a forgotten holder does until its deadline.
    LASTS="\$(( TENURE_TOKEN % 7 * $TTL / 10 + 40 ))"
    redis_store --appendonly yes --appendfsync always
    targets_in_file 9
    proxy_start p
    for name in a b c; do started $name; done
    until_true 15 spread 3 3 a b c
    until_true 10 all_polled
    schedule "$TTL" >"$CASE/schedule"
    losses=0
    harms=0
    before=
    begin=$(boot_ms)
    mark begin
    while read -r at what which; do
        left=$((begin + at - $(boot_ms)))
        if [ "$left" -gt 0 ]; then pause_ms "$left"; fi
        echo "$at $what $which ($(boot_ms))"
        case $what in
        flush | empty | same | older) lose "$what" "$which" ;;
        keep) redis_keep "$CASE/kept-$which" ;;
        cut) proxy_tell p hold ;;
        whole)
            # What was held comes now, all at once and late.
            proxy_tell p clear
            ;;
        *) harm "$what" "$which" ;;
        esac
    done <"$CASE/schedule"
    until_true 15 spread 3 3 a b c
    noticed
    mark calm
    until_true 10 all_polled calm
    mark end
    for name in a b c; do stop $name; done
    echo "$losses losses ($(count_of 'flush|empty|older|same')), $harms things done to agents" | tee "$TAP_DIR/summary"
    wanted=$((SECONDS_WANTED / (SECONDS_WANTED >= 60 ? 20 : 5)))
    [ "$losses" -ge "$wanted" ] || fail "only $losses losses, $wanted wanted: this run proves too little"
    [ "$harms" -ge "$((wanted / 2))" ] || fail "only $harms things done to agents: this run proves too little"
    # A holder dies: a TTL. Its lease is forgotten just before it ends: a TTL more. Then the time until a loss is noticed
    # and a turn is taken, the longest poll, and what a busy machine adds.
    bound=$((2 * TTL + RENEW + TTL * 2 / 3 + 2000))
    sound --targets "$TARGETS" --bound "$bound" --from begin --until end --polls "$((SECONDS_WANTED * 5))" --takeovers "$wanted"
    "$PYTHON" "$CHECK" "$LOG" check --bound "$bound" --from begin --until end >>"$TAP_DIR/summary"
}
# count_of PATTERN: what was done, and how often.
count_of() {
    awk -v pattern="^($1)\$" '$2 ~ pattern { n[$2]++ } END { for (what in n) printf "%s%d %s", sep++ ? ", " : "", n[what], what }' \
        "$CASE/schedule"
}

echo "# seed $SEED, $SECONDS_WANTED seconds"
it "$SECONDS_WANTED seconds with a Redis that forgets leave no overlap, no lower token and no gap (seed $SEED)" forgets
sed 's/^/# /' "$TAP_DIR/summary" 2>/dev/null
finish
