#!/bin/sh
# tenure elect: many candidates, and many terms. Never two at a time, and tokens that strictly increase, judged by the
# log of the commands alone.
#     elect_many.sh [--handoffs N]
HANDOFFS=${ELECT_HANDOFFS:-1000}
if [ "${1:-}" = --handoffs ]; then HANDOFFS=${2:?}; fi
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"

# The judge sees two at a time, and a term whose token was another's.
judge() {
    printf '%s\n' '1000 1 start web 1 a' '9000 1 beat web 1 a' '5000 2 start web 2 b' '8000 2 end web 2 b' >"$CASE/polls"
    exits 1 "$PYTHON" "$CHECK" "$CASE/polls" check --terms 2
    out_has 'polled twice'
    printf '%s\n' '1000 1 start web 1 a' '2000 1 beat web 1 a' '5000 2 start web 1 a' '8000 2 end web 1 a' >"$CASE/polls"
    exits 0 "$PYTHON" "$CHECK" "$CASE/polls" check
    exits 1 "$PYTHON" "$CHECK" "$CASE/polls" check --terms 2
    out_has 'token 1 of a after 1'
    printf '%s\n' '1000 1 start web 1 a' '2000 1 beat web 1 a' '5000 2 start web 2 a' '8000 2 end web 2 a' >"$CASE/polls"
    exits 1 "$PYTHON" "$CHECK" "$CASE/polls" check --terms 3
    out_has 'proves too little'
    exits 0 "$PYTHON" "$CHECK" "$CASE/polls" check --terms 2
}

twenty() {
    TTL=20000
    RENEW=5000
    names=$(seq -f 'c%g' 1 20)
    for name in $names; do candidate "$name"; done
    until_true 15 somebody_leads
    for name in $names; do until_true 15 knows "$name"; done
    same 'terms' "$(terms)" 1
    same 'commands that run' "$(pollers | wc -l)" 1
    INSTANCE=$(leader)
    mark stop
    stop "$(name_of "$INSTANCE")"
    handed_over stop 0 8000
    pause_ms 500
    same 'terms after the first leader has stopped' "$(terms)" 2
    same 'commands that run' "$(pollers | wc -l)" 1
    # All the others at once: those that wait must not lead for a moment each, or at least never two.
    # shellcheck disable=SC2086
    halt $names
    never_two 2
    soon_true 3 no_pollers
    role_is_free || fail 'the role was not released'
}

handoffs() {
    TTL=20000
    RENEW=5000
    POLL_OPTIONS=$1
    for name in a b c; do candidate "$name" --log-level warn; done
    until_true 15 somebody_leads
    "$PYTHON" "$TENURE_SOURCE/tests/lib/elect_handoffs.py" "$TENURE" "$ROLE" "$LOG" "$2" 600 ||
        fail 'too few changes of hands'
    halt a b c
    never_two "$2"
    for name in a b c; do grep -q " start $ROLE [0-9]* $name-" "$LOG" || fail "$name never led"; done
    soon_true 3 no_pollers
}

also 'the judge sees two leaders at a time, and a token that two terms have' judge
also 'twenty candidates start at once: exactly one command runs, and then exactly one other' on_store_of_roles twenty
also "$HANDOFFS changes of hands in a row: never two leaders, tokens strictly increase" \
    on_store_of_roles handoffs '' "$HANDOFFS"
gather
finish
