#!/bin/sh
# Keeps the planted bugs fitting the core. See README.md.
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

# True: all bugs found their place.
unpack() {
    directory=$1
    clean=true
    mkdir -p "$directory" || return 2
    rm -f "$directory"/*.[ch] "$directory"/*.rej "$directory"/*.orig
    for diff in "$mutants"/core/*.diff; do
        name=$(basename "$diff" .diff)
        if [ ! -f "$root/src/core/$name" ]; then
            say "src/core/$name is gone: plant the bugs of tests/mutants/core/$name.diff elsewhere, and remove it"
            clean=false
        elif ! patch --silent --batch --forward --merge --output="$directory/$name" "$root/src/core/$name" "$diff"; then
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
        diff=$mutants/core/$name.diff
        if [ ! -f "$root/src/core/$name" ]; then
            say "there is no src/core/$name"
            status=1
        elif grep -qE '^(<<<<<<<|=======|>>>>>>>)' "$planted"; then
            say "$planted: there are still places marked with <<<<<<<"
            status=1
        elif ! grep -q TEN_MUTANT "$planted"; then
            say "$planted: there is no TEN_MUTANT in it; remove it, or its diff"
            status=1
        else
            [ -f "$diff" ] || say "tests/mutants/core/$name.diff is new: add $name to tests/mutants/core/meson.build"
            diff -u --label "src/core/$name" --label "planted/core/$name" "$root/src/core/$name" "$planted" >"$diff"
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
