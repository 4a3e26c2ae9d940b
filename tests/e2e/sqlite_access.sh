#!/bin/sh
# Who can open the files of a SQLite store. Whoever can only read them can lock them, and so stop every renewal: a new store
# is its user's alone, and `tenure doctor` warns about one that is not.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

modes() { stat -c %a "$1" "$1-lock" "$1-wal" "$1-shm" | sort -u | tr '\n' ' '; }
# with FILE: the files that are there while somebody has it open.
with() {
    exits 0 "$TENURE" acquire t --store "sqlite:$1"
    background watch "$TENURE" watch --store "sqlite:$1"
    until_true 20 test -e "$1-wal"
}

its_users_alone() {
    umask 000
    mkdir "$CASE/own" "$CASE/shared"
    chmod 755 "$CASE/own"
    chmod 2775 "$CASE/shared"
    with "$CASE/own/leases.db"
    same 'modes' "$(modes "$CASE/own/leases.db")" '600 '
    with "$CASE/shared/leases.db"
    same 'modes in a directory that its group may write to' "$(modes "$CASE/shared/leases.db")" '660 '
    export XDG_STATE_HOME="$CASE/state"
    unset TENURE_STORE
    exits 0 "$TENURE" acquire t
    same 'the default directory' "$(stat -c %a "$CASE/state/tenure")" 700
    same 'the default store' "$(stat -c %a "$CASE/state/tenure/tenure.db")" 600
}

# For root only: as another user.
others_cannot_lock_it() {
    [ "$(id -u)" -eq 0 ] || return 0
    chmod 755 "$TAP_DIR" "$CASE"
    with "$CASE/leases.db"
    for file in leases.db leases.db-shm leases.db-wal leases.db-lock; do
        ! setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'exec <"$0"' "$CASE/$file" || fail "$file can be read"
    done
}

doctor_warns() {
    chmod 755 "$TAP_DIR" "$CASE"
    exits 0 "$TENURE" acquire t --store "sqlite:$CASE/leases.db"
    exits 0 "$TENURE" doctor --store "sqlite:$CASE/leases.db"
    out_has 'only its user or group can open the database'
    chmod 644 "$CASE/leases.db"
    exits 0 "$TENURE" doctor --store "sqlite:$CASE/leases.db"
    out_has 'every user can open the database'
    chmod 600 "$CASE/leases.db"
    chmod 777 "$CASE"
    exits 0 "$TENURE" doctor --store "sqlite:$CASE/leases.db"
    out_has 'every user can write to the directory of the database'
}

# Of any store: files that its URL names.
doctor_looks_at_secrets() {
    echo secret >"$CASE/token"
    chmod 644 "$CASE/token"
    background serve "$TENURE" serve --store "sqlite:$CASE/leases.db" --listen 127.0.0.1:0
    until_true 20 grep -q . "$CASE/serve.out"
    url="http://$(cat "$CASE/serve.out")?token_file=$CASE/token"
    exits 0 "$TENURE" doctor --store "$url"
    out_has 'token_file'
    out_has 'every user can read the file'
    out_has 'not needed: the server is on this host'
    chmod 600 "$CASE/token"
    exits 0 "$TENURE" doctor --store "$url"
    out_has 'only its user or group can read the file'
    kill -TERM "$PID"
    ended 0 "$PID"
}

it 'the files of a new store are its own user'\''s, or of the group that the directory is for' its_users_alone
it 'another user can open none of them, not even to lock it' others_cannot_lock_it
it 'doctor warns about a store that others can open or replace' doctor_warns
! "$TENURE" help | grep -q '^ *serve ' ||
    it 'doctor warns about a file with a secret that others can read' doctor_looks_at_secrets
finish
