#!/bin/sh
# Searches the model of the protocol (protocol.pml): all states of the rules as they are, in which no promise may be
# broken; then with one rule broken, where the search must find which promise that rule is for. Prints TAP.
#
#   sh model/protocol.sh                what CI runs: half a minute on one core, less than 1 GiB
#   sh model/protocol.sh --deep         also three instances with two targets, and more clocks: see README.md
#   sh model/protocol.sh --story NAME   how a promise is broken without NAME, step by step; the names are in README.md
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
model=protocol
fold=protocol_fold.c
small='-DINSTANCES=2 -DTTL=2 -DLATE=1'
optimization_of_holds=-O1
# shellcheck source=model/search.sh
. "$here/search.sh"

# A rule, the promise that it is for, and a sentence. The stories are in README.md.
broken_rules() {
    cat <<'END'
NO_MARGIN believes_alone without a margin, and clocks that lose time, there are two believers
CLOCKS_WORSE_THAN_THE_MARGIN believes_alone with clocks that lose more than the margin there are two believers
DEADLINE_FROM_RECEIVE believes_alone with a deadline from the answer's arrival there are two believers
LATE_REPLY_REVIVES believes_alone when a late answer revives a belief there are two believers
PAUSED_BELIEVES_ON believes_alone when a deadline needs its thread to run, a paused holder believes beside another
NO_ANSWER_IS_YES believes_alone when no answer is taken for a renewal there are two believers
REFUSED_IS_GRANTED believes_alone when a refused acquire is taken for a grant there are two believers
RELEASE_BEFORE_STOP believes_alone when a lease is released before its work has stopped there are two believers
RELEASED_TOKEN_IS_BELIEVED believes_alone when a released token is believed in again there are two believers
RELEASE_WITHOUT_TOKEN believes_alone when a release compares the holder alone there are two believers
BATCH_IS_ONE believes_alone when one grant of a request is taken for all of it there are two believers
NO_EPOCH believes_alone without epochs there are two believers
QUARANTINE_TOO_SHORT believes_alone with a quarantine shorter than the TTL there are two believers
FLOOR_ZERO token_grows without a floor a token is granted twice
NO_TOKEN_COUNTER token_grows without a counter that outlives the lease a token is granted twice
OLD_TOKEN_IS_KEPT token_is_above when a new grant keeps the old token, it is below another's
RENEW_WITHOUT_COMPARISON changes_own when a renewal compares nothing, a successor's lease is lengthened
PUT_BACK_NOTHING living_go_on when nothing is put back, a living holder is refused
STALE_GRANT_IS_KEPT takes_over when a stale grant is not given back, its holder waits for ever
LEASES_NEVER_END takes_over when a lease does not end by itself, a dead holder keeps it
HAND_BEFORE_STOP believes_alone when a lease is handed over before its work has stopped there are two believers
SUCCESSOR_BELIEVES_UNCONFIRMED believes_alone when a successor believes what it hears, without a request of its own, there are two believers
HAND_WITHOUT_TOKEN believes_alone when a hand compares the holder alone there are two believers
HANDED_TOKEN_IS_KEPT token_grows when a successor gets the token of the holder before it, a token is granted twice
HAND_IN_QUARANTINE living_go_on when a lease is handed over in the quarantine, a living holder is driven out
END
}

flags_of() {
    case $1 in
    BATCH_IS_ONE) echo "-D$1 -DTARGETS=2" ;;
    HAND_IN_QUARANTINE) echo "-D$1 -DHANDS -ULATE -DLATE=2" ;;
    *HAND* | SUCCESSOR_*) echo "-D$1 -DHANDS" ;;
    *) echo "-D$1" ;;
    esac
}

# sizes INSTANCES TARGETS TTL LATE
sizes() {
    echo "-DINSTANCES=$1 -DTARGETS=$2 -DTTL=$3 -DLATE=$4"
}

# README.md says which function an action stands for, in tables, as `path`: `name()`, `name()`; what stands before any path
# is the model's own. A function that was renamed or
# moved would leave the model telling of something that is not there.
names_are_there() {
    root=$here/..
    grep '^| ' "$here/README.md" | tr '`' '\n' | awk '
        /^src\/[a-z_\/]+\.(c|lua)$/ { path = $0 }
        /^[a-zA-Z_]+\(\)$/ { print path, substr($0, 1, length($0) - 2) }
        /^\|/ { path = "model/*.pml" }' | sort -u >named
    while read -r path name; do
        # shellcheck disable=SC2086 # a pattern
        grep -Eqs "(^|[^A-Za-z0-9_])$name\(" "$root"/$path || echo "$path has no $name()"
    done <named >wrong
    cat wrong
    [ ! -s wrong ] || fail "README.md names what is not there"
    [ "$(wc -l <named)" -ge 25 ] || fail "README.md names hardly anything: its tables are not read as meant"
}

# shellcheck disable=SC2046 # lists
search_all() {
    it 'each function that the actions stand for is where README.md says' names_are_there
    check 'the protocol is safe: three instances, one target' holds 1000 $(sizes 3 1 2 1) -DHANDS -DFORCES
    check 'the protocol is safe as long as the store forgets nothing: two instances, two targets' \
        holds 1000 $(sizes 2 2 2 1) -DHANDS -DNO_LOSS
    check 'the protocol is safe, each clock losing time when it likes: two instances, one target' \
        holds 1000 $(sizes 2 1 3 1) -DHANDS -DOWN_CLOCKS
    check 'the protocol is safe with two late requests at once: two instances, one target' \
        holds 1000 $(sizes 2 1 2 2) -DHANDS
    if [ "$1" = yes ]; then
        check 'the protocol is safe: three instances, one target, a longer TTL' holds 1000 $(sizes 3 1 3 1) -DHANDS -DFORCES
        check 'the protocol is safe with two late requests at once, and forced releases' \
            holds 1000 $(sizes 2 1 2 2) -DHANDS -DFORCES
        check 'the protocol is safe: two instances, two targets' holds 4000 $(sizes 2 2 2 1) -DHANDS -DFORCES
        check 'the protocol is safe: three instances, two targets' holds 7000 $(sizes 3 2 2 1)
        check 'the protocol is safe, each clock losing time when it likes: three instances, one target' \
            holds 4000 $(sizes 3 1 3 1) -DHANDS -DOWN_CLOCKS
    fi
    check 'a store that has forgotten everything grants again' reaches -DREACH_GRANT_AFTER_LOSS
    check 'a holder keeps its lease over a loss and the quarantine' reaches -DREACH_KEPT_OVER_LOSS
    check 'a stale grant is given back' reaches -DREACH_STALE_GRANT
    check 'a successor confirms what was handed over to it' reaches -DREACH_CONFIRMED -DHANDS
    [ "$1" = quick ] || breaks_each
}

search_main "$@"
