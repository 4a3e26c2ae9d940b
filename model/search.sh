# What the searches of the models have in common, in POSIX sh; epoch.sh, protocol.sh and session.sh source it, say which rules there
# are and call search_main. It knows nothing of what a model is about.
#
# The caller sets: model (the name of NAME.pml), fold (its file of equal states; may be empty), small (the sizes with which a broken
# rule is searched, as flags), and defines broken_rules (a line each: the rule, the promise that it is for, a sentence),
# flags_of RULE, and search_all yes|no|quick (deeply or not), which calls check with holds, reaches and breaks_each. It may
# set optimization_of_holds: a compiler that optimizes less takes less time than it costs in a short search.
# shellcheck shell=sh disable=SC2154 # what the caller sets
here=${here:?the directory of the models}
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

# search OPTIMIZATION MEBIBYTES FLAG...: what pan says is in ./out. Its compiler takes longer than a short search.
search() {
    optimization=$1
    memory=$2
    shift 2
    cp "$here/$model.pml" ${fold:+"$here/$fold"} .
    spin -a "$@" "$model.pml"
    # Breadth first: no depth that could be too small, and the shortest story. The code that spin writes has warnings.
    "$CC" "$optimization" -w "$@" -DSAFETY -DBFS -DNOREDUCE -DNOCOMP "-DMEMLIM=$memory" -o pan pan.c
    ./pan -w22 >out 2>&1
    cat out
    awk '/ states, stored/ { states = $1 }
        /memory usage \(Mbyte\)/ { memory = $1 }
        /elapsed time/ { seconds = $4 }
        END { printf "# %d states, %d MiB, %s s\n", states, memory, seconds }' out >"$STATS"
}

# holds MEBIBYTES FLAG...: all states were seen, and nothing is wrong in any.
holds() {
    mebibytes=$1
    shift
    search "${optimization_of_holds:--O2}" "$mebibytes" "$@" -DFOLD
    grep -q 'errors: 0$' out || fail "a promise is broken"
    if grep -Eq 'not completed|too small|MEMLIM|out of memory|-DVECTORSZ' out; then fail "not all states were seen"; fi
    grep -q 'states, stored' out || fail "the search did not end"
}

only() {
    echo "-DONLY_$(echo "$1" | tr '[:lower:]' '[:upper:]')"
}

# breaks PROMISE FLAG...: that promise is found broken. The others are not judged, lest a lesser one be found before.
breaks() {
    promise=$1
    shift
    # shellcheck disable=SC2086 # a list
    search -O0 2000 $small "$(only "$promise")" "$@"
    grep -q "assertion violated $promise " out || fail "$promise is not found broken"
}

# reaches FLAG...: the situation is there at all, or else the promises would mean little.
reaches() {
    # shellcheck disable=SC2086 # a list
    search -O0 2000 $small "$@"
    grep -q "assertion violated not_reached " out || fail "this is never reached"
}

# check SENTENCE FUNCTION ARGUMENT...: as it, with what the search cost.
check() {
    : >"$STATS"
    it "$@"
    cat "$STATS"
}

breaks_each() {
    broken_rules >"$TAP_DIR/rules"
    while read -r name promise sentence; do
        # shellcheck disable=SC2046 # a list
        check "$sentence" breaks "$promise" $(flags_of "$name")
    done <"$TAP_DIR/rules"
}

tell_story() {
    promise=$(broken_rules | awk -v name="$1" '$1 == name { print $2; exit }')
    [ -n "$promise" ] || fail "there is no $1; these are there: $(broken_rules | awk '{ printf "%s ", $1 }')"
    # shellcheck disable=SC2046 # a list
    breaks "$promise" -DSTORY $(flags_of "$1") >/dev/null
    # shellcheck disable=SC2046,SC2086 # lists
    spin -t $small "$(only "$promise")" -DSTORY $(flags_of "$1") "$model.pml" |
        sed -n 's/^  *\([0-9A-Za-z*-].*\)/\1/; /^spin: .*Error/q; p'
    echo "broken: $promise"
}

# search_main [--quick | --deep | --story NAME]
search_main() {
    case ${1:-} in
    '') search_all no ;;
    --quick) search_all quick ;; # the broken rules are left out
    --deep) search_all yes ;;
    --story)
        set -e
        cd "$TAP_DIR"
        tell_story "${2:?--story needs a name}"
        exit 0
        ;;
    *) echo "$0 knows --quick, --deep and --story NAME, and not '$1'" >&2 && exit 2 ;;
    esac
    finish
}
