#!/bin/sh
# Searches the model of the epoch rule (epoch.pml): all states of the rule as it is, in which no promise may be broken;
# then the rule with one part broken, where the search must find which promise that part is for. Prints TAP.
#
#   sh model/epoch.sh                what CI runs: a minute or two on one core, less than 2 GiB
#   sh model/epoch.sh --deep         also more instances and ticks at once, and more late requests: 4 GiB, ten minutes
#   sh model/epoch.sh --story NAME   how the promise is broken without NAME, step by step; the names are in README.md
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
model=epoch
fold=epoch_fold.c
small='-DINSTANCES=2 -DTTL=2 -DLATE=1'
# shellcheck source=model/search.sh
. "$here/search.sh"

# A part of the rule, the promise that it is for, and a sentence. The stories are in README.md.
broken_rules() {
    cat <<'END'
NO_EPOCH believes_alone without epochs there are two believers
RUN_ID_ONLY believes_alone with the run id alone, a promotion there and back goes unnoticed, and there are two believers
QUARANTINE_TOO_SHORT believes_alone with a quarantine shorter than the TTL there are two believers
QUARANTINE_NOT_RESTARTED believes_alone when a second loss does not restart the quarantine there are two believers
QUARANTINE_OF_THE_CALLER believes_alone with a quarantine of the caller's TTL, shorter than another's, there are two believers
ACQUIRE_RECOGNISES_ITSELF_IN_QUARANTINE believes_alone when an acquire recognises itself in quarantine there are two believers
OLD_TOKEN_IS_GIVEN_AGAIN token_is_above when an acquire is given a token from before the epoch, it is below another's
FLOOR_ZERO token_is_above without a floor tokens go down
PUT_BACK_ANY_TOKEN living_go_on when any token puts a lease back, a living holder is driven out
PUT_BACK_ONLY_ABOVE living_go_on when the counter's own token does not put a lease back, a living holder is refused
PUT_BACK_NOTHING living_go_on when nothing is put back, a living holder is refused
DEADLINE_FROM_RECEIVE believes_alone with a deadline from the answer's arrival there are two believers
LATE_REPLY_REVIVES believes_alone when a late answer revives a belief there are two believers
RENEW_AFTER_DEADLINE believes_alone when who no longer believes renews, there are two believers
RELEASED_TOKEN_IS_BELIEVED believes_alone when a released token is believed in again there are two believers
EPOCH_COUNTS_AT_ONCE believes_alone when an epoch counts before the replicas follow there are two believers
FLOOR_NOT_RAISED token_is_above when the floor is from before the replicas follow, the former primary grants its tokens, too
FORMER_PRIMARY_ANSWERS believes_alone while a former primary still answers there are two believers: no rule of the store can help
END
}

flags_of() {
    case $1 in
    QUARANTINE_OF_THE_CALLER) echo "-D$1 -DUNEQUAL_TTLS" ;;
    EPOCH_COUNTS_AT_ONCE | FLOOR_NOT_RAISED) echo "-D$1 -DREPLICAS" ;;
    *) echo "-D$1" ;;
    esac
}

# sizes INSTANCES TTL LATE
sizes() {
    echo "-DINSTANCES=$1 -DTTL=$2 -DLATE=$3"
}

# shellcheck disable=SC2046 # lists
search_all() {
    check 'the epoch rule holds: two instances, TTL of three ticks' holds 2000 $(sizes 2 3 1)
    check 'the epoch rule holds with unequal TTLs, if the quarantine is the longest' \
        holds 2000 $(sizes 2 3 1) -DUNEQUAL_TTLS
    check 'with replicas the epoch rule holds while a former primary still answers' \
        holds 2000 $(sizes 2 2 1) -DREPLICAS -DNO_LATE
    if [ "$1" = yes ]; then
        check 'the epoch rule holds: three instances, TTL of two ticks' holds 2000 $(sizes 3 2 1)
        check 'the epoch rule holds: three instances, TTL of three ticks' holds 4000 $(sizes 3 3 1)
        check 'the epoch rule holds: two instances, TTL of four ticks' holds 4000 $(sizes 2 4 1)
        check 'the epoch rule holds: two instances, two late requests each' holds 4000 $(sizes 2 2 2)
        check 'with replicas the epoch rule holds while a former primary still answers, with late requests' \
            holds 4000 $(sizes 2 2 1) -DREPLICAS
    fi
    check 'a store that has forgotten everything grants again' reaches -DREACH_GRANT_AFTER_LOSS
    check 'a holder keeps its lease over a loss and the quarantine' reaches -DREACH_KEPT_OVER_LOSS
    check 'a lease is put back in which nobody believes any more' reaches -DREACH_PUT_BACK_BY_NOBODY
    [ "$1" = quick ] || breaks_each
}

search_main "$@"
