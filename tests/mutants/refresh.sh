#!/bin/sh
# Keeps the planted bugs fitting the core, the rules and the stores. See README.md.
#
#   refresh.sh                unpacks, and writes the diffs anew unless something has to be edited first
#   refresh.sh unpack [DIR]   makes planted copies of the core files; where a bug does not fit, both versions are marked
#   refresh.sh write [DIR]    writes the diffs anew from the copies
#
# DIR is build/planted unless given.
set -u
mutants=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$mutants/../.." && pwd)

say() {
    printf '%s\n' "$*"
}

# room_of NAME: the layer whose file it is.
room_of() {
    for room in rules store store/redis; do
        if [ -f "$root/src/$room/$1" ] || [ -f "$mutants/$room/$1.diff" ]; then
            echo "$room"
            return
        fi
    done
    echo core
}

# merge NAME OUTPUT: the bugs of a diff that no longer fits, merged into the changed core file. The commit that last wrote
# the diff has the core file that it did fit. False: something has to be edited.
merge() {
    room=$(room_of "$1")
    current=$root/src/$room/$1
    diff=$mutants/$room/$1.diff
    scratch=$(mktemp -d) || return 2
    fits=$(git -C "$root" log -1 --format=%H -- "tests/mutants/$room/$1.diff" 2>/dev/null)
    if [ -n "$fits" ] &&
        git -C "$root" show "$fits:tests/mutants/$room/$1.diff" 2>/dev/null | cmp -s - "$diff" &&
        git -C "$root" show "$fits:src/$room/$1" >"$scratch/original" 2>/dev/null &&
        patch --silent --batch --forward --fuzz=0 --output="$scratch/planted" "$scratch/original" "$diff"; then
        git merge-file -p -L "src/$room/$1" -L 'before' -L "planted" "$current" "$scratch/original" \
            "$scratch/planted" >"$2"
    else
        patch --silent --batch --forward --merge --output="$2" "$current" "$diff"
    fi
    merged=$?
    rm -rf "$scratch"
    return "$merged"
}

# True: all bugs found their place.
unpack() {
    directory=$1
    clean=true
    mkdir -p "$directory" || return 2
    rm -f "$directory"/*.[ch] "$directory"/*.orig
    for diff in "$mutants"/*/*.diff "$mutants"/*/*/*.diff; do
        [ -f "$diff" ] || continue
        name=$(basename "$diff" .diff)
        room=$(room_of "$name")
        if [ ! -f "$root/src/$room/$name" ]; then
            say "src/$room/$name is gone: plant the bugs of tests/mutants/$room/$name.diff elsewhere, and remove it"
            clean=false
        elif patch --silent --batch --forward --fuzz=0 --reject-file=- --output="$directory/$name" \
            "$root/src/$room/$name" "$diff" >/dev/null 2>&1; then
            continue
        elif ! merge "$name" "$directory/$name"; then
            say "$directory/$name: look for <<<<<<< and plant again what did not fit"
            clean=false
        fi
    done
    "$clean"
}

write() {
    directory=$1
    status=0
    for planted in "$directory"/*.[ch]; do
        name=$(basename "$planted")
        room=$(room_of "$name")
        diff=$mutants/$room/$name.diff
        if [ ! -f "$root/src/$room/$name" ]; then
            say "there is no src/$room/$name"
            status=1
        elif grep -qE '^(<<<<<<<|=======|>>>>>>>)' "$planted"; then
            say "$planted: there are still places marked with <<<<<<<"
            status=1
        elif ! grep -q TEN_MUTANT "$planted"; then
            say "$planted: there is no TEN_MUTANT in it; remove it, or its diff"
            status=1
        else
            [ -f "$diff" ] || say "tests/mutants/$room/$name.diff is new: add $name to tests/mutants/$room/meson.build"
            diff -u --label "src/$room/$name" --label "planted/$room/$name" "$root/src/$room/$name" "$planted" >"$diff"
        fi
    done
    return "$status"
}

directory=${2:-$root/build/planted}
case ${1:-both} in
unpack)
    unpack "$directory"
    ;;
write)
    write "$directory"
    ;;
both)
    if unpack "$directory"; then
        write "$directory"
    else
        say "then: tests/mutants/refresh.sh write"
        exit 1
    fi
    ;;
*)
    say 'usage: refresh.sh [unpack [DIR] | write [DIR]]' >&2
    exit 2
    ;;
esac
