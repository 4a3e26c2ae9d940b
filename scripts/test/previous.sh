#!/bin/sh
# The program of the previous version, for the upgrade tests. tests/upgrade/previous names its commit.
#
#   previous.sh where   prints where that program is, or will be when it is built. Exits with 1, and says why on standard
#                       error, if the history does not have the commit
#   previous.sh build   builds it there, unless that was done before
#
# With SOURCE_ROOT and BUILD_ROOT from ./dev. A program stays for as long as the main build directory does, so that a
# second run takes no time. Called by run.py and, because meson must always be given the same options, by lib/build.sh.
set -u
cd "${SOURCE_ROOT:?}" || exit 1
. scripts/lib/output.sh
. scripts/lib/build.sh

commit=$(sed '/^#/d; /^$/d' tests/upgrade/previous) || exit 1
place=${BUILD_ROOT:?}/build/previous/$commit
program=$place/build/tenure

# missing REASON
missing() {
    say "$*" >&2
    exit 1
}

# The history is this tree's own: a source archive may lie in the repository of somebody else.
look_for_commit() {
    command -v git >/dev/null || missing 'git is missing; install it, and use a clone of the repository'
    [ -e .git ] || missing 'this is not a clone of the repository; use one that has its history'
    said=$(git rev-parse --is-shallow-repository 2>&1) || missing "git cannot read the history: $(say "$said" | head -n 1)"
    git cat-file -e "$commit^{commit}" 2>/dev/null && return
    if [ "$said" = true ]; then
        missing "commit $commit is not in this shallow clone; get it with: git fetch --unshallow"
    fi
    missing "commit $commit of tests/upgrade/previous is not in the history; get it with: git fetch origin"
}

# runs: it is there, and the libraries that it was linked with still are.
runs() { "$program" version >/dev/null 2>&1; }

# Its own meson.build is used, which may be older than this tree's.
make_program() {
    rm -rf "$place"
    mkdir -p "$place/source" && git archive --format=tar "$commit" | tar -xf - -C "$place/source" &&
        meson setup "$place/build" "$place/source" -Dtests=false -Dbench=false && ninja -C "$place/build" tenure && runs
}

look_for_commit
case $1 in
where) say "$program" ;;
build)
    runs && exit
    mkdir -p "$BUILD_ROOT/build/previous" || exit 1
    log=$BUILD_ROOT/build/previous/build.log
    make_program >"$log" 2>&1 || {
        show_errors "$log"
        exit 1
    }
    ;;
esac
