#!/bin/sh
# Fault 20: the disk is full. A clear error, nothing believed, the database intact, and all well again when there is
# room. The disk is a small tmpfs in a mount namespace of this test, so nothing of it is left behind.
if [ -z "${TENURE_E2E_OWN_MOUNTS:-}" ]; then
    TENURE_E2E_OWN_MOUNTS=yes
    export TENURE_E2E_OWN_MOUNTS
    # As root or as a user; in a chroot, whose root is no mount, the propagation has to stay as it is.
    for way in -m '-m --propagation unchanged' -Urm '-Urm --propagation unchanged'; do
        # shellcheck disable=SC2086 # options
        if unshare $way true 2>/dev/null; then exec unshare $way sh "$0"; fi
    done
    printf 'not ok 1 - a mount namespace can be had\n# no way of unshare is allowed here: run as root\n1..1\n'
    exit 1
fi
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

make_disk() {
    mkdir "$CASE/disk"
    mount -t tmpfs -o "size=$1" none "$CASE/disk"
    TENURE_STORE=sqlite:$CASE/disk/store.db
    export TENURE_STORE
}

fill_disk() {
    dd if=/dev/zero of="$CASE/disk/filling" bs=4096 2>/dev/null && fail 'the disk did not fill' || :
    df -k "$CASE/disk"
}

empty_disk() {
    rm "$CASE/disk/filling"
}

store_is_intact() {
    same 'the integrity check' "$(sqlite3 "$CASE/disk/store.db" 'PRAGMA integrity_check')" ok
}

# refused ARGUMENT...: says what is wrong, and where.
refused() {
    exits 3 "$TENURE" "$@"
    out_is ''
    err_has "$CASE/disk/store.db"
    printf '%s\n' "$ERR" | grep -Eiq '^tenure: .*(full|room|space)' || fail 'the message does not say that the disk is full'
}

full_for_verbs() {
    make_disk 1m
    exits 0 "$TENURE" acquire job-1 --ttl 1h
    exits 0 "$TENURE" acquire job-2 --ttl 1h
    fill_disk
    refused acquire job-3
    refused release job-2 --token 1
    refused target add x
    empty_disk
    store_is_intact
    same 'the state of job-1' "$(state_of job-1)" held
    same 'the state of job-2' "$(state_of job-2)" held
    exits 0 "$TENURE" renew job-1 --token 1
    exits 0 "$TENURE" release job-2 --token 1
    exits 0 "$TENURE" acquire job-3
    out_is 1
    exits 0 "$TENURE" acquire job-2
    out_is 2
    store_is_intact
}

fills_up_while_used() {
    make_disk 1m
    dd if=/dev/zero of="$CASE/disk/filling" bs=4096 count=150 2>/dev/null
    spec="\"$(printf '%01500d' 0)\""
    number=0
    STATUS=0
    while [ "$STATUS" -eq 0 ] && [ "$number" -lt 500 ]; do
        number=$((number + 1))
        "$TENURE" target add "target-$number" --spec "$spec" 2>"$CASE/err" || STATUS=$?
    done
    cat "$CASE/err"
    same 'the exit code when it was full' "$STATUS" 3
    empty_disk
    store_is_intact
    exits 0 "$TENURE" target ls
    same 'number of targets' "$(printf '%s\n' "$OUT" | wc -l)" "$((number - 1))"
    exits 0 "$TENURE" acquire job-1
}

# A process that holds a lease through it: it must not work while it cannot renew, and goes on when there is room.
full_for_a_holder() {
    make_disk 1m
    background holder "$TENURE_EXAMPLES/holder" "$TENURE_STORE" job-1 alice 1500
    holder=$PID
    until_true 5 is_held job-1
    fill_disk
    sleep 2
    empty_disk
    exits 0 "$TENURE" show job-1
    kill -s TERM "$holder" || : # it may have ended, and be waited for only now
    if grep -q '^alice: lost job-1 ' "$CASE/holder.out"; then
        ended 1 "$holder"
    else
        ended 0 "$holder"
    fi
    ! grep -Ev '^alice: cannot ' "$CASE/holder.err" || fail 'the holder said something else'
    store_is_intact
    exits 0 "$TENURE" acquire job-1 --wait 5s
    out_is 2
}

# Invented instances, and tombstones of those that never were.
no_room_for_instances() {
    background serve "$TENURE" serve --listen 127.0.0.1:0
    until_true 20 grep -q . "$CASE/serve.out"
    url=http://$(cat "$CASE/serve.out")/api/v1/poll
    code=$(curl -s -o "$CASE/answer" -w '%{http_code}' -X PUT -d '{}' "$url/nodes/new")
    same 'the answer to a heartbeat of a new instance' "$code" 503
    code=$(curl -s -o "$CASE/answer" -w '%{http_code}' -d '{"holder_id":"new","ops":[{"op":"leave","ttl_ms":1000}]}' "$url/leases")
    same 'the answer to a tombstone' "$code" 503
    code=$(curl -s -o "$CASE/answer" -w '%{http_code}' \
        -d '{"holder_id":"new","ops":[{"op":"acquire","id":"job-9"},{"op":"acquire","id":"job-2"}]}' "$url/leases")
    same 'the answer to a batch' "$code" 200
    grep -q '"job-9","outcome":"error","error":"TENURE_E_FULL"' "$CASE/answer" || fail "$(cat "$CASE/answer")"
    grep -q '"job-2","outcome":"held"' "$CASE/answer" || fail "$(cat "$CASE/answer")"
    kill -TERM "$PID"
    ended 0 "$PID"
}

# Whoever invents targets fills the disk, but not the last of it.
little_room() {
    make_disk 8m
    exits 0 "$TENURE" acquire job-1 --ttl 1h
    exits 0 "$TENURE" acquire job-2 --ttl 1h
    exits 0 "$TENURE" target add known
    # Between nothing and an eighth of it.
    free=$(df -k --output=avail "$CASE/disk" | tail -n 1)
    dd if=/dev/zero of="$CASE/disk/filling" bs=1024 count="$((free - 700))" 2>/dev/null
    refused acquire job-3
    refused target add x
    refused target add known --url http://a/
    exits 0 "$TENURE" renew job-1 --token 1
    exits 0 "$TENURE" release job-2 --token 1
    exits 0 "$TENURE" acquire job-2
    out_is 2
    exits 0 "$TENURE" target rm known
    if "$TENURE" help | grep -q '^ *serve '; then no_room_for_instances; fi
    empty_disk
    exits 0 "$TENURE" acquire job-3
    exits 0 "$TENURE" target add x
}

# with_disk FUNCTION: takes the disk away again, also after a failure.
with_disk() {
    trap 'cd / && umount -l "$CASE/disk"' EXIT
    "$@"
}

it 'on a full disk the verbs fail with 3, and succeed when there is room' with_disk full_for_verbs
it 'with little room nothing new is written, and what exists is renewed and changes hands' with_disk little_room
it 'a disk that fills up while it is used leaves an intact database' with_disk fills_up_while_used
it 'a holder survives a full disk or stops, and the next one has a higher token' with_disk full_for_a_holder
finish
