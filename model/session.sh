#!/bin/sh
# Searches the model of session leases (session.pml): all states of the rules as they are, in which no promise may be
# broken; then with one rule broken, where the search must find which promise that rule is for. Prints TAP.
#
#   sh model/session.sh                 a few seconds on one core; --deep searches nothing more
#   sh model/session.sh --story NAME    how a promise is broken without NAME, step by step; the names are in README.md
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
model=session
fold=
small=-DTTL=2
# shellcheck source=model/search.sh
. "$here/search.sh"

# A rule, the promise that it is for, and a sentence. The stories are in README.md.
broken_rules() {
    cat <<'END'
FORCE_RAISES_NOTHING believes_alone when a forced release does not raise the version there are two believers
VERSION_IGNORED believes_alone when a heartbeat counts although its version is another one there are two believers
BEAT_FROM_RECEIPT believes_alone with a deadline from the arrival of a heartbeat's answer there are two believers
ACQUIRE_LENGTHENS believes_alone when a grant on a session counts from its own sending there are two believers
READ_LENGTHENS believes_alone when a read counts from its own sending there are two believers
READ_BEFORE_BEAT believes_alone when a read takes effect before the heartbeat in front of it there are two believers
OTHER_SESSION_IS_BELIEVED believes_alone when a lease on an unknown session is believed in there are two believers
SESSION_SHORTENS believes_alone when a lease may end earlier on the session than by itself there are two believers
PLAIN_RENEWAL_RAISES_NOTHING believes_alone when a lease leaves the session without a new version there are two believers
SESSION_COMES_BACK stays_ended when a heartbeat goes on with a session that has ended, its leases come back
FORCED_STAYS_ON_SESSION forced_ends when a forced lease stays on the session, heartbeats prolong it
END
}

flags_of() {
    echo "-D$1"
}

search_all() {
    check 'session leases are safe' holds 1000 -DTTL=2
    check 'session leases are safe with a longer TTL' holds 1000 -DTTL=3
    check 'a holder that read its lease after another version believes on' reaches -DREACH_READ_EXTENDS
    check 'a holder notices by the version that its lease was forced' reaches -DREACH_FORCED_NOTICED
    check 'a lease with an end of its own goes back on the session' reaches -DREACH_BACK_ON_SESSION
    [ "$1" = quick ] || breaks_each
}

search_main "$@"
