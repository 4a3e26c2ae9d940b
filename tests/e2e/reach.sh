#!/bin/sh
# Stores that are out of reach, not ours, or not allowed: exit 3 or 1, the path and the reason, and nothing is changed.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

missing_directory() {
    for command in 'acquire job-1' ls doctor watch 'show job-1' 'release job-1 --force' 'target ls'; do
        exits 3 "$TENURE" $command --store "sqlite:$CASE/nowhere/store.db"
        if [ "$command" = doctor ]; then ERR=$OUT; else out_is ''; fi # it reports what it finds
        err_has "$CASE/nowhere" 'No such file or directory'
    done
    [ ! -e "$CASE/nowhere" ] || fail 'the directory was made'
}

a_directory() {
    mkdir "$CASE/directory.db"
    exits 3 "$TENURE" acquire job-1 --store "sqlite:$CASE/directory.db"
    err_has "$CASE/directory.db"
}

# by_another ARGUMENT...: root may write everywhere, so somebody else has to try.
by_another() {
    if [ "$(id -u)" -ne 0 ]; then
        "$TENURE" "$@"
        return
    fi
    chmod 755 "$TAP_DIR" "$CASE"
    [ -e "$CASE/program" ] || cp "$TENURE" "$CASE/program"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$CASE/program" "$@"
}
read_only_directory() {
    mkdir "$CASE/closed"
    chmod 555 "$CASE/closed"
    exits 3 by_another acquire job-1 --store "sqlite:$CASE/closed/store.db"
    err_has "$CASE/closed/store.db" 'permission denied'
    same 'files in the directory' "$(ls -A "$CASE/closed")" ''
    exits 3 by_another doctor --store "sqlite:$CASE/closed/store.db"
    out_has 'let this user write to the file'
    out_lacks 'start the store'
}

read_only_file() {
    exits 0 "$TENURE" acquire job-1
    [ "$(id -u)" -eq 0 ] || chmod 444 "$CASE/store.db"
    exits 3 by_another acquire job-2
    err_has "$CASE/store.db"
}

memory_refused() {
    for command in 'acquire job-1' ls watch doctor; do
        exits 2 "$TENURE" $command --store memory:x
        err_has 'memory: lives inside one process'
    done
}

left_out_stores() {
    for scheme in postgres etcd http; do
        run "$TENURE" ls --store "$scheme://localhost/"
        [ "$STATUS" -ne 0 ] || fail "a $scheme store was opened"
        err_has "$scheme"
    done
}

doctor_ok() {
    exits 0 "$TENURE" doctor --migrate
    out_has "ok    store" "ok    clock" "ok    latency" "ok    TTL"
    out_lacks FAIL
    exits 0 "$TENURE" doctor --store "sqlite:$CASE/store.db" --ttl 5s # a short one could be too short on a busy machine
}

doctor_out_of_reach() {
    exits 3 "$TENURE" doctor --store "sqlite:$CASE/nowhere/store.db" --json
    out_has '"check":"store","level":"fail"' "$CASE/nowhere" '"advice":"correct --store'
    out_lacks '"latency"'
}

relative_path() {
    mkdir "$CASE/sub"
    cd "$CASE/sub"
    exits 0 "$TENURE" acquire job-1 --store sqlite:here.db
    [ -f "$CASE/sub/here.db" ] || fail 'no database in the present directory'
    exits 4 "$TENURE" acquire job-1 --store "sqlite:$CASE/sub/here.db"
}

odd_path() {
    mkdir "$CASE/a b'c"
    exits 0 "$TENURE" acquire job-1 --store "sqlite:$CASE/a b'c/x%3fy.db"
    [ -f "$CASE/a b'c/x?y.db" ] || fail 'no database at the decoded path'
}

it 'a missing directory is out of reach, for every command' missing_directory
it 'a directory in place of the file is out of reach' a_directory
it 'a directory that may not be written is out of reach' read_only_directory
it 'a file that may not be written is out of reach' read_only_file
it 'the memory store is refused, since it would end with the command' memory_refused
it 'stores that this build does not have are named' left_out_stores
it 'doctor finds a good store fit' doctor_ok
it 'doctor exits 3 when the store is out of reach' doctor_out_of_reach
it 'a relative path is meant from the present directory' relative_path
it 'a path may have blanks, quotes and encoded characters' odd_path
finish
