#!/bin/sh
# The lease verbs for scripts: acquire, renew, release, show, ls, target, and their exit codes.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

# ---- acquire, renew, release

acquire_of_held() {
    exits 0 "$TENURE" acquire job-1
    holder=$(holder_of job-1)
    exits 4 "$TENURE" acquire job-1
    out_is ''
    err_has "job-1 is held by $holder for another 2"
    same 'the token' "$(token_of job-1)" 1
}

renew_prolongs() {
    exits 0 "$TENURE" acquire job-1
    before=$(shown expires_at job-1)
    sleep 0.5
    exits 0 "$TENURE" renew job-1 --token 1
    out_is ''
    err_has 'event=lease_renewed'
    after=$(shown expires_at job-1)
    same 'the later end' "$(printf '%s\n%s\n' "$before" "$after" | sort | tail -n 1)" "$after"
    [ "$before" != "$after" ] || fail "it still ends at $before"
    exits 0 "$TENURE" renew job-1 --token 1 --ttl 1h
    between 'remaining with another TTL' "$(remaining_of job-1)" 3580000 3600000
    same 'the token' "$(token_of job-1)" 1
}

renew_of_lost() {
    exits 0 "$TENURE" acquire job-1 --ttl 200ms
    sleep 0.3
    exits 5 "$TENURE" renew job-1 --token 1
    err_has 'job-1 with token 1 is over'
    exits 0 "$TENURE" acquire job-1
    exits 5 "$TENURE" renew job-1 --token 1
    err_has 'is lost' "$(holder_of job-1)" 'token 2'
    exits 5 "$TENURE" renew job-1 --token 99
    exits 5 "$TENURE" renew never-leased --token 1
    same 'the token' "$(token_of job-1)" 2
}

release_frees() {
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" release job-1 --token 1
    out_is ''
    err_has 'event=lease_released' 'reason=done'
    same 'the state' "$(state_of job-1)" free
    exits 5 "$TENURE" renew job-1 --token 1
}

release_of_not_held() {
    exits 0 "$TENURE" release job-1 --token 7
    err_has 'job-1 is not held under token 7; nothing to release'
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" release job-1 --token 1
    exits 0 "$TENURE" release job-1 --token 1
    err_has 'nothing to release'
}

late_release() {
    exits 0 "$TENURE" acquire job-1 --ttl 200ms
    sleep 0.3
    exits 0 "$TENURE" acquire job-1
    out_is 2
    successor=$(holder_of job-1)
    exits 0 "$TENURE" release job-1 --token 1
    err_has 'nothing to release'
    exits 5 "$TENURE" renew job-1 --token 1
    same 'the holder' "$(holder_of job-1)" "$successor"
    same 'the state' "$(state_of job-1)" held
}

force_bars() {
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" release job-1 --force
    err_has 'can no longer renew its lease'
    same 'the state' "$(state_of job-1)" forced
    exits 5 "$TENURE" renew job-1 --token 1
    err_has 'barred'
    exits 4 "$TENURE" acquire job-1
}

force_now() {
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" release job-1 --force --now
    err_has 'the target is free at once' 'compares tokens'
    exits 0 "$TENURE" acquire job-1
    out_is 2
    exits 5 "$TENURE" renew job-1 --token 1
    exits 0 "$TENURE" release job-2 --force --now
    err_has 'job-2 is not held'
}

# ---- looking

show_in_words() {
    exits 0 "$TENURE" acquire job-1 --name me
    exits 0 "$TENURE" show job-1
    for key in target namespace state instance token acquired_at renewed_at expires_at remaining registered; do
        printf '%s\n' "$OUT" | grep -q "^$key " || fail "no line for $key"
    done
    out_has 'me-' 'held'
    exits 0 "$TENURE" release job-1 --token 1
    exits 0 "$TENURE" show job-1
    out_has 'free'
    out_lacks 'me-'
}

show_of_unknown() {
    exits 0 "$TENURE" target add other
    exits 1 "$TENURE" show job-1
    out_is ''
    err_has 'job-1'
    exits 1 "$TENURE" show job-1 --json
    out_is ''
}

ls_filters() {
    exits 0 "$TENURE" acquire b
    exits 0 "$TENURE" acquire a
    exits 0 "$TENURE" acquire c
    exits 0 "$TENURE" release a --token 1
    exits 0 "$TENURE" target add d
    exits 0 "$TENURE" target add e --paused
    exits 0 "$TENURE" ls
    same 'all targets' "$(printf '%s\n' "$OUT" | cut -f 1,2 | tr '\t\n' '= ')" 'a=free b=held c=held d=free e=paused '
    exits 0 "$TENURE" ls --held
    same 'held targets' "$(printf '%s\n' "$OUT" | cut -f 1 | tr '\n' ' ')" 'b c '
    exits 0 "$TENURE" ls --free
    same 'free targets' "$(printf '%s\n' "$OUT" | cut -f 1 | tr '\n' ' ')" 'a d '
}

ls_of_nothing() {
    exits 0 "$TENURE" target add other --namespace elsewhere
    exits 0 "$TENURE" ls
    out_is ''
    exits 0 "$TENURE" ls --json
    out_is ''
    exits 0 "$TENURE" target ls
    out_is ''
}

# ---- the registry

target_life() {
    exits 0 "$TENURE" target add a b --url http://localhost/x --every 5s --spec '{"depth": [1, 2]}'
    err_has '2 added, 0 changed'
    exits 0 "$TENURE" target add a --exec 'echo hi'
    err_has '0 added, 1 changed'
    exits 0 "$TENURE" target pause b
    exits 0 "$TENURE" target ls --json
    all_json
    same 'the registry' "$(printf '%s\n' "$OUT" | python3 -c '
import json, sys
for t in map(json.loads, sys.stdin):
    print(t["target"], t["url"], t["exec"], t["every"], t["paused"], t["spec"])')" \
        "a None echo hi None False None
b http://localhost/x None 5000ms True {'depth': [1, 2]}"
    exits 0 "$TENURE" target resume b
    exits 0 "$TENURE" target ls
    same 'the states' "$(printf '%s\n' "$OUT" | cut -f 1,2 | tr '\t\n' '= ')" 'a=active b=active '
    exits 0 "$TENURE" target rm a b
    exits 0 "$TENURE" target ls
    out_is ''
}

target_unknown() {
    exits 0 "$TENURE" target add a c
    exits 1 "$TENURE" target rm a b c
    err_has "b"
    exits 0 "$TENURE" target ls
    out_is ''
    exits 1 "$TENURE" target pause a
    exits 1 "$TENURE" target resume a
}

forget_by_id() {
    for token in 1 2 3; do
        exits 0 "$TENURE" acquire job-1
        exits 0 "$TENURE" release job-1 --token "$token"
    done
    exits 0 "$TENURE" acquire held
    exits 0 "$TENURE" target add registered
    exits 4 "$TENURE" forget held
    err_has 'cannot forget held: it is held'
    exits 1 "$TENURE" forget registered
    err_has 'cannot forget registered: it is registered' 'tenure target rm registered'
    exits 1 "$TENURE" forget never
    err_has 'no target never'
    exits 4 "$TENURE" forget job-1 held
    exits 1 "$TENURE" show job-1
    exits 0 "$TENURE" acquire job-1
    out_is 4
    exits 0 "$TENURE" acquire new
    out_is 4
}

forget_unregistered() {
    for id in a b c held; do exits 0 "$TENURE" acquire "$id"; done
    for id in a b c; do exits 0 "$TENURE" release "$id" --token 1; done
    exits 0 "$TENURE" target add b
    exits 0 "$TENURE" forget --unregistered
    err_has '2 forgotten'
    exits 0 "$TENURE" ls --json
    same 'the targets' "$(printf '%s\n' "$OUT" | grep -o '"target":"[a-z]*"' | tr '\n' ' ')" '"target":"b" "target":"held" '
    exits 0 "$TENURE" acquire a
    out_is 2
    exits 2 "$TENURE" forget
    exits 2 "$TENURE" forget a --unregistered
}

it 'a held target is refused with 4, its holder and the time left' acquire_of_held
it 'a renewal gives a fresh TTL and keeps the token' renew_prolongs
it 'renewing a lost lease exits 5 and changes nothing' renew_of_lost
it 'a release frees the target' release_frees
it 'releasing what is not held exits 0' release_of_not_held
it 'a late release with an old token does nothing to the successor' late_release
it 'a forced lease cannot be renewed, and nobody enters before it ends' force_bars
it 'forced with --now it is free at once' force_now
it 'show tells who holds it, since when and for how long' show_in_words
it 'show of an unknown target exits 1' show_of_unknown
it 'ls lists in order of ids, all, held or free' ls_filters
it 'listing an empty store prints nothing and exits 0' ls_of_nothing
it 'targets are added, changed, paused, resumed and removed' target_life
it 'an unknown target does not keep the others from being removed' target_unknown
it 'a target is forgotten unless it is held, registered or unknown, and gets a higher token when it is used again' forget_by_id
it 'all that is free and unregistered is forgotten at once' forget_unregistered
finish
