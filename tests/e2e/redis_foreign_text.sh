#!/bin/sh
# Whoever may write to the Redis can put any bytes there: as the holder of a lease, as the name of an instance or of a target,
# into the feed. No command may pass a control character of them to a terminal, or let them forge a line.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

TEXT=$(printf 'x\033]0;pwned\007\302\2332J\r\nforged\177')
EVIL=$TEXT$(printf '\377')

# is_clean FILE WHAT: tabs and the ends of our own lines are all that is there of control characters; C1 is two bytes.
is_clean() {
    LC_ALL=C tr -d '\n\t\040-\176\200-\377' <"$1" >"$CASE/control"
    [ ! -s "$CASE/control" ] || fail "$2: control characters: $(od -c "$1" | head -n 20)"
    ! LC_ALL=C grep -q "$(printf '\302[\200-\237]')" "$1" || fail "$2: C1 characters"
    [ "$2" = 'a checkpoint on a terminal' ] || ! grep -q '^forged' "$1" || fail "$2: a forged line"
}

# looks WORD...: what a command prints, whatever it exits with.
looks() {
    timeout 60 "$TENURE" "$@" >"$CASE/looks" 2>"$CASE/looks.err" || true
    is_clean "$CASE/looks" "$*"
    is_clean "$CASE/looks.err" "$* (standard error)"
    cat "$CASE/looks" "$CASE/looks.err" >>"$CASE/everything"
}

foreign_text() {
    redis_up
    TENURE_STORE=redis://127.0.0.1:$REDIS_PORT
    export TENURE_STORE
    exits 0 "$TENURE" target add a b --store "$TENURE_STORE?fresh=1"
    redis SET poll:lease:b "$EVIL" PX 600000
    redis SET "poll:node:$EVIL" 1 PX 600000
    redis SET leader:r "$EVIL" PX 600000
    background watch "$TENURE" watch
    watch=$PID
    background observe "$TENURE" elect --observe r
    until_true 20 test -s "$CASE/observe.out"
    # A heartbeat of ours finds the instance.
    exits 0 "$TENURE" acquire a
    exits 0 "$TENURE" checkpoint a --token "$OUT" "$TEXT"
    exits 0 "$TENURE" checkpoint a
    [ "$("$TENURE" checkpoint a)" = "$TEXT" ] || fail 'a checkpoint that is no text for a terminal has changed'
    script -qec "'$TENURE' checkpoint a" /dev/null </dev/null | tr -d '\r' >"$CASE/terminal"
    is_clean "$CASE/terminal" 'a checkpoint on a terminal'
    grep -q 'pwned' "$CASE/terminal" || fail 'the checkpoint is not shown'
    for words in 'show b' 'owner b' 'owner b --json' ls 'ls --json' nodes status plan 'plan --add 1' history doctor 'doctor --json' 'target ls' \
        'acquire b' 'acquire b --json' 'acquire r --namespace leader' 'show r --namespace leader' \
        'release b --force --now' 'show b' history 'resign r --from x' 'drain x'; do
        # shellcheck disable=SC2086
        looks $words
    done
    grep -q 'pwned' "$CASE/everything" || fail 'nothing of it was shown: this shows nothing'
    until_true 20 grep -q lease_released "$CASE/watch.out"
    grep -q 'x\\x1b]0;pwned\\x07\\xc2\\x9b2J\\x0d\\x0aforged\\x7f\\xff' "$CASE/watch.out" || fail "$(cat -v "$CASE/watch.out")"
    kill -TERM "$watch"
    ended 0 "$watch"
    for file in watch.out watch.err observe.out observe.err; do is_clean "$CASE/$file" "$file"; done
}

it 'no command passes a control character of a foreign writer on' foreign_text
finish
