#!/bin/sh
# Searches the model of the epoch rule (epoch.pml): all states of the rule as it is, in which no promise may be broken;
# then the rule with one part broken, where the search must find which promise that part is for. Prints TAP.
#
#   sh model/check.sh                what CI runs: a minute or two on one core, less than 2 GiB
#   sh model/check.sh --deep         also more instances and ticks at once, and more late requests: 4 GiB, ten minutes
#   sh model/check.sh --story NAME   how the promise is broken without NAME, step by step; the names are in README.md
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
CC=${CC:-gcc}

for tool in spin "$CC"; do
    command -v "$tool" >/dev/null || {
        echo "Bail out! $tool is not installed"
        exit 1
    }
done

# The library is made for the program's tests; here there is no program.
export TENURE=none
# shellcheck source=/dev/null
. "$here/../tests/lib/tap.sh"
STATS=$TAP_DIR/stats

# search MEBIBYTES INSTANCES TTL LATE FLAG...: what pan says is in ./out.
search() {
    memory=$1
    sizes="-DINSTANCES=$2 -DTTL=$3 -DLATE=$4"
    shift 4
    cp "$here/epoch.pml" "$here/fold.c" .
    # shellcheck disable=SC2086 # a list
    spin -a $sizes "$@" epoch.pml
    # Breadth first: no depth that could be too small, and the shortest story. The code that spin writes has warnings.
    # shellcheck disable=SC2086 # a list
    "$CC" -O2 -w $sizes "$@" -DSAFETY -DBFS -DNOREDUCE -DNOCOMP "-DMEMLIM=$memory" -o pan pan.c
    ./pan -w24 >out 2>&1
    cat out
    awk '/ states, stored/ { states = $1 }
        /memory usage \(Mbyte\)/ { memory = $1 }
        /elapsed time/ { seconds = $4 }
        END { printf "# %d states, %d MiB, %s s\n", states, memory, seconds }' out >"$STATS"
}

# holds MEBIBYTES INSTANCES TTL LATE FLAG...: all states were seen, and nothing is wrong in any.
holds() {
    search "$@" -DFOLD
    grep -q 'errors: 0$' out || fail "a promise is broken"
    if grep -Eq 'not completed|too small|MEMLIM|out of memory|-DVECTORSZ' out; then fail "not all states were seen"; fi
    grep -q 'states, stored' out || fail "the search did not end"
}

# breaks PROMISE FLAG...: that promise is found broken. The others are not judged, lest a lesser one be found before.
breaks() {
    promise=$1
    shift
    search 2000 2 2 1 "-DONLY_$(echo "$promise" | tr '[:lower:]' '[:upper:]')" "$@"
    grep -q "assertion violated $promise " out || fail "$promise is not found broken"
}

# reaches FLAG: the situation is there at all, or else the promises would mean little.
reaches() {
    search 2000 2 2 1 "$1"
    grep -q "assertion violated not_reached " out || fail "this is never reached"
}

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
FORMER_PRIMARY_ANSWERS believes_alone while a former primary still answers there are two believers: no rule of the store can help
END
}

flags_of() {
    case $1 in
    QUARANTINE_OF_THE_CALLER) echo "-D$1 -DUNEQUAL_TTLS" ;;
    *) echo "-D$1" ;;
    esac
}

# check SENTENCE FUNCTION ARGUMENT...: as it, with what the search cost.
check() {
    : >"$STATS"
    it "$@"
    cat "$STATS"
}

tell_story() {
    promise=$(broken_rules | awk -v name="$1" '$1 == name { print $2 }')
    [ -n "$promise" ] || fail "there is no $1; these are there: $(broken_rules | awk '{ printf "%s ", $1 }')"
    # shellcheck disable=SC2046 # a list
    breaks "$promise" -DSTORY $(flags_of "$1") >/dev/null
    # shellcheck disable=SC2046 # a list
    spin -t -DINSTANCES=2 -DTTL=2 -DLATE=1 "-DONLY_$(echo "$promise" | tr '[:lower:]' '[:upper:]')" -DSTORY \
        $(flags_of "$1") epoch.pml | sed -n 's/^  *\([0-9a-z*-].*\)/\1/; /^spin: .*Error/q; p'
    echo "broken: $promise"
}

deep=no
case ${1:-} in
'') ;;
--deep) deep=yes ;;
--story)
    set -e
    cd "$TAP_DIR"
    tell_story "${2:?--story needs a name}"
    exit 0
    ;;
*) echo "check.sh knows --deep and --story NAME, and not '$1'" >&2 && exit 2 ;;
esac

check 'the epoch rule holds: three instances, TTL of two ticks' holds 2000 3 2 1
check 'the epoch rule holds: two instances, TTL of three ticks' holds 2000 2 3 1
check 'the epoch rule holds with unequal TTLs, if the quarantine is the longest' holds 2000 2 3 1 -DUNEQUAL_TTLS
if [ "$deep" = yes ]; then
    check 'the epoch rule holds: three instances, TTL of three ticks' holds 4000 3 3 1
    check 'the epoch rule holds: two instances, TTL of four ticks' holds 4000 2 4 1
    check 'the epoch rule holds: two instances, two late requests each' holds 4000 2 2 2
fi
check 'a store that has forgotten everything grants again' reaches -DREACH_GRANT_AFTER_LOSS
check 'a holder keeps its lease over a loss and the quarantine' reaches -DREACH_KEPT_OVER_LOSS
check 'a lease is put back in which nobody believes any more' reaches -DREACH_PUT_BACK_BY_NOBODY
broken_rules >"$TAP_DIR/rules"
while read -r name promise sentence; do
    # shellcheck disable=SC2046 # a list
    check "$sentence" breaks "$promise" $(flags_of "$name")
done <"$TAP_DIR/rules"
finish
