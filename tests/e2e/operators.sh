#!/bin/sh
# What an operator asks at night: which namespaces there are, who leads and who waits, where a target is; and mistakes.
# shellcheck source=tests/lib/tap.sh
. "$TENURE_SOURCE/tests/lib/tap.sh"

candidate() { background "$1" "$TENURE" elect web --name "$1" --log-level warn -- sleep 1000; }
who_says() { "$TENURE" who web 2>/dev/null | grep -q "web	$1	$2-"; }

who_leads() {
    candidate host-a
    until_true 10 who_says leading host-a
    candidate host-b
    until_true 10 who_says waiting host-b
    exits 0 "$TENURE" who web --json
    out_has '"state":"leading"' '"state":"waiting"'
    exits 1 "$TENURE" who nothing
    err_has 'nobody leads nothing'
    # By a part of its name.
    exits 0 "$TENURE" resign web --from host-a --wait 20s
    until_true 10 who_says leading host-b
}

ambiguous() {
    candidate host-1
    candidate host-2
    until_true 10 sh -c "[ \"\$('$TENURE' nodes --namespace leader | wc -l)\" -eq 2 ]"
    exits 2 "$TENURE" resign web --from host
    err_has "names 2 instances" host-1- host-2-
    short=$("$TENURE" nodes --namespace leader | sed -n 's/^\(host-1\)-[0-9]*-\(....\).*/\1 \2/p')
    exits 0 "$TENURE" drain --namespace leader $short
    err_has 'host-1-'
}

namespaces() {
    exits 0 "$TENURE" once job -- true
    exits 0 "$TENURE" acquire x
    exits 0 "$TENURE" namespaces
    out_is "leader	1	1	0
poll	1	1	0"
    for reader in show history owner; do
        exits 0 "$TENURE" $reader job
        err_has 'job is in the namespace leader'
    done
    exits 1 "$TENURE" checkpoint job
    err_has 'job is in the namespace leader' 'job has no checkpoint'
    exits 1 "$TENURE" show job --namespace poll
    exits 1 env TENURE_NAMESPACE=poll "$TENURE" show job
}

# A lock is in the namespace `lock`, whatever namespace a verb would look into.
held_elsewhere() {
    background build-7 "$TENURE" lock deploy --name build-7 --ttl 3s --log-level warn -- sleep 1000
    until_true 30 held_in lock deploy
    exits 0 "$TENURE" who deploy
    out_has leading build-7-
    err_has 'deploy is in the namespace lock'
    exits 0 "$TENURE" target add deploy # known, but not held
    exits 0 "$TENURE" owner deploy
    out_has build-7-
    exits 0 "$TENURE" release deploy --force
    err_has 'deploy is in the namespace lock' 'build-7 ' 'can no longer renew its lease'
    exits 0 "$TENURE" release deploy --force --namespace none # as it was told
    until_true 30 free_in lock deploy
    exits 0 "$TENURE" release deploy --force
    err_has 'deploy is not held; nothing to release'
}
held_in() { "$TENURE" owner "$2" --namespace "$1" --quiet >/dev/null 2>&1; }
free_in() { ! held_in "$@"; }

# Whose lease it is, a token does not say: those of two namespaces can be equal.
held_in_several() {
    exits 0 "$TENURE" acquire x --namespace one
    token=$OUT
    exits 1 "$TENURE" release x --token "$token"
    err_has 'x is in the namespace one; use --namespace'
    exits 0 "$TENURE" release x --token "$((token + 1))"
    exits 0 "$TENURE" acquire x --namespace two
    for verb in 'release x --force' 'who x' 'show x' 'owner x' 'history x' 'resign x --from host'; do
        # shellcheck disable=SC2086
        exits 1 "$TENURE" $verb
        err_has 'x is in the namespaces one, two; use --namespace'
    done
    held_in one x || fail 'it was released'
    exits 0 "$TENURE" release x --force --namespace one
    exits 0 "$TENURE" release x --token "$token" --namespace one
    exits 0 "$TENURE" release x --force
    err_has 'x is in the namespace two'
}

instance_elsewhere() {
    member host-a
    background host-b "$TENURE" agent --namespace scenes --name host-b --ttl 3s --targets store --poll exec:true --log-level warn
    until_true 30 sh -c "'$TENURE' nodes --namespace scenes --quiet | grep -q host-b"
    exits 0 "$TENURE" drain host-b
    err_has 'host-b is in the namespace scenes' 'was asked to hand over'
    exits 0 "$TENURE" drain host-b --undo
    exits 1 "$TENURE" drain host-c
    err_has 'no live instance host-c'
}

# ---- roles and locks are no targets of a plan

why_of() { "$TENURE" status --namespace "$1" | awk -F '\t' -v target="$2" '$1 == target { print $7 }'; }
why_is() { [ "$(why_of "$1" "$2")" = "$3" ]; }

healthy() {
    candidate host-a
    until_true 30 who_says leading host-a
    candidate host-b
    until_true 30 who_says waiting host-b
    same 'why' "$(why_of leader web)" leads
    background first "$TENURE" lock deploy --name first --log-level warn -- sleep 1000
    first=$PID
    until_true 30 held_in lock deploy
    same 'why' "$(why_of lock deploy)" 'held by lock, once, acquire, REST or a library'
    background second "$TENURE" lock deploy --name second --log-level warn -- sleep 1000
    until_true 30 why_is lock deploy 'holds the lock; 1 waits'
    background third "$TENURE" lock deploy --name third --log-level warn -- sleep 1000
    until_true 30 why_is lock deploy 'holds the lock; 2 wait'
    # Who has waited is announced, and holds it next.
    kill "$first"
    until_true 30 why_is lock deploy 'holds the lock; 1 waits'
    # Members of a fleet in the same namespace do not plan for it.
    background member "$TENURE" agent --namespace leader --targets store --poll exec:true --log-level warn
    exits 0 "$TENURE" target add job --namespace leader
    until_true 30 held_in leader job
    same 'why' "$(why_of leader web)" leads
    same 'why' "$(why_of leader job)" ''
}

# The page and `top` ask the same: what moves, and who drains.
healthy_over_rest() {
    background serve "$TENURE" serve --listen 127.0.0.1:0
    until_true 30 test -s "$CASE/serve.out"
    address=http://$(cat "$CASE/serve.out")
    candidate host-a
    until_true 30 who_says leading host-a
    background member "$TENURE" agent --namespace leader --targets store --poll exec:true --log-level warn
    until_true 30 sh -c "'$TENURE' nodes --namespace leader | grep -q live"
    curl -s "$address/api/v1/leader/nodes?plan=true" >"$CASE/nodes"
    if grep -q '"draining":true\|"moving_count":[1-9]' "$CASE/nodes"; then fail "$(cat "$CASE/nodes")"; fi
}

# ---- drains

nodes_say() { "$TENURE" nodes --namespace leader | grep "^$2-" | cut -f2 | grep -qx "$1"; }

drained_leader() {
    candidate host-a
    until_true 30 who_says leading host-a
    candidate host-b
    other=$PID
    until_true 30 who_says waiting host-b
    exits 0 "$TENURE" drain host-a
    err_has 'was asked to hand over what it holds'
    until_true 30 who_says leading host-b
    until_true 30 who_says drained host-a
    until_true 30 nodes_say draining host-a
    exits 0 "$TENURE" history web
    out_has drain
    # Nor when it is the only one.
    kill "$other"
    until_true 30 free_in leader web
    sleep 2
    exits 1 "$TENURE" owner web --namespace leader
    exits 0 "$TENURE" drain host-a --undo
    until_true 30 who_says leading host-a
}

drained_lock() {
    background first "$TENURE" lock deploy --name first --log-level warn -- sleep 1000
    until_true 30 held_in lock deploy
    background second "$TENURE" lock deploy --name second --log-level warn -- sleep 1000
    until_true 30 why_is lock deploy 'holds the lock; 1 waits'
    exits 1 "$TENURE" drain second
    err_has 'second-' 'cannot be drained' "'tenure release NAME --force'"
    background serve "$TENURE" serve --listen 127.0.0.1:0
    until_true 30 test -s "$CASE/serve.out"
    address=http://$(cat "$CASE/serve.out")
    second=$("$TENURE" nodes --namespace lock | sed -n 's/^\(second-[^	]*\).*/\1/p')
    same 'the answer' "$(curl -s -o "$CASE/answer" -w '%{http_code}' "$address/api/v1/lock/leases" -H 'Content-Type: application/json' \
        -d "{\"holder_id\":\"x\",\"ops\":[{\"op\":\"ask\",\"holder_id\":\"$second\",\"ask\":2}]}")" 400
    grep -q 'cannot be drained' "$CASE/answer" || fail "$(cat "$CASE/answer")"
}

forced() {
    exits 0 "$TENURE" acquire x --name host-a
    exits 0 "$TENURE" release x --force
    err_has 'host-a ' 'can no longer renew its lease' 'the target is free when that lease ends, in '
    exits 0 "$TENURE" history x
    out_has "$(id -un)@$(uname -n)"
}

# ---- moving a target

member() { background "$1" "$TENURE" agent --name "$1" --ttl 3s --settle 100ms --targets store --poll exec:true --log-level warn; }
holds() { "$TENURE" owner "$2" 2>/dev/null | grep -q "^$1-"; }
holder_of() { "$TENURE" owner "$1" | sed 's/-[0-9]*-.*//'; }
all_held() { [ "$("$TENURE" ls --held 2>/dev/null | grep -c "host-")" -eq 6 ]; }
other_than() { if [ "$1" = host-a ]; then echo host-b; else echo host-a; fi; }

two_members() {
    exits 0 "$TENURE" target add t1 t2 t3 t4 t5 t6
    member host-a
    member host-b
    until_true 20 all_held
    until_true 20 sh -c "[ \"\$('$TENURE' nodes | wc -l)\" -eq 2 ]"
    sleep 0.5
}

moves() {
    two_members
    from=$(holder_of t1)
    to=$(other_than "$from")
    exits 0 "$TENURE" move t1 "$to" --for 1h --reason 'slow "disk"'
    err_has "t1 is pinned to $to " 'for 1h'
    until_true 20 holds "$to" t1
    exits 0 "$TENURE" show t1
    out_has "to $to " "$(id -un)@$(uname -n)" 'slow "disk"'
    exits 0 "$TENURE" ls --json
    out_has "\"pinned\":\"$to-"
    exits 0 "$TENURE" status
    out_has "pinned to $to "
    exits 0 "$TENURE" history t1
    out_has pinned "$(id -un)@$(uname -n)"
    exits 0 "$TENURE" move t1 --undo
    err_has 'no longer pinned'
    until_true 20 holds "$from" t1
    exits 0 "$TENURE" move t1 --not "$from"
    err_has "t1 is kept away from $from "
    until_true 20 holds "$to" t1
}

moves_by_force() {
    two_members
    from=$(holder_of t1)
    to=$(other_than "$from")
    exits 0 "$TENURE" release t1 --force --to "$to"
    err_has "t1: $from " 'can no longer renew its lease' "$to " 'takes the target when that lease ends'
    until_true 20 holds "$to" t1
    exits 0 "$TENURE" release t1 --force --not "$to" --reason again
    err_has "$from " 'takes the target when that lease ends'
    until_true 20 holds "$from" t1
}

wrong_moves() {
    exits 0 "$TENURE" target add t
    exits 1 "$TENURE" move t nobody
    err_has 'there is no instance nobody in the namespace poll'
    exits 2 "$TENURE" move t
    err_has 'move takes a target and an instance'
    exits 1 "$TENURE" move unknown --undo
    err_has 'there is no target unknown in the registry'
    exits 2 "$TENURE" release t --to host-a --token 1
    err_has '--to and --not go with --force'
    exits 2 "$TENURE" release t --force --for 1h
    err_has '--for and --reason go with --to or --not'
    exits 2 "$TENURE" pin t
    err_has "did you mean 'move'"
}

pause_answers() {
    exits 0 "$TENURE" target add a b
    exits 0 "$TENURE" target pause a b
    err_has '2 paused'
    exits 0 "$TENURE" target rm a
    err_has '1 removed'
    exits 1 "$TENURE" target pause none
    err_lacks '0 paused'
}

mistakes() {
    for pair in mutex:lock lead:elect semaphore:'lock --count N' members:nodes ndoes:nodes; do
        exits 2 "$TENURE" "${pair%%:*}"
        err_has "did you mean '${pair#*:}'"
    done
    exits 2 "$TENURE" elect -- echo hi
    err_has 'ROLE is missing before --'
    for reader in ls status nodes 'show x' namespaces 'who x' 'target ls' 'target rm x' 'cron ls' 'checkpoint x' watch doctor \
        'elect --observe x' 'drain x' 'forget x'; do
        exits 3 "$TENURE" $reader --store "sqlite:$CASE/mistyped.db"
        printf '%s\n%s\n' "$OUT" "$ERR" | grep -q "there is no store at $CASE/mistyped.db" || fail "$reader says: $OUT $ERR"
        [ ! -e "$CASE/mistyped.db" ] || fail "$reader made a store"
    done
}

# The screen of top, with a key or two.
live() {
    exits 0 "$TENURE" target add alpha beta
    exits 0 "$TENURE" acquire alpha
    python3 - "$TENURE" >"$CASE/screen" <<'END'
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["tenure", "top"])
def until(text):
    seen = b""
    while text not in seen:
        seen += os.read(fd, 65536)
    return seen
screen = until(b"alpha")
os.write(fd, b"s")
until(b"by holder")
os.write(fd, b"/bet\n")
until(b"filter: bet ")
os.write(fd, b"q")
print(screen.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
    grep -q '2 targets, 1 unowned' "$CASE/screen" || fail 'the summary is wrong'
    # What nobody holds stands first.
    same 'the first row' "$(grep -ao 'alpha  *held\|beta  *UNOWNED' "$CASE/screen" | head -n 1 | cut -c 1-4)" beta
    exits 2 "$TENURE" top
    err_has 'needs a terminal'
}

nothing_there() {
    exits 0 "$TENURE" acquire x
    for pair in ls:targets status:targets plan:targets 'target ls:registered targets' nodes:instances history:history \
        'cron ls:jobs'; do
        # shellcheck disable=SC2086 # words
        OUT=$(python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$TENURE" ${pair%:*} --namespace none </dev/null)
        out_has "no ${pair#*:} in the namespace none; other namespaces: poll"
    done
}

it 'who shows the leader and the standbys, and an instance may be named by a part of its id' who_leads
it 'a part of an id that names several instances is refused, and the short form of the page is understood' ambiguous
it 'the namespaces are listed, and what has a name is found in the one that has it' namespaces
it 'what is held in another namespace is found, and never said to be free' held_elsewhere
it 'a name that several namespaces have is not guessed' held_in_several
it 'an instance of another namespace is found' instance_elsewhere
it 'a leader leads and a lock is held, and neither drains nor moves' healthy
it 'nor do they over REST' healthy_over_rest
it 'a leader that is drained steps down, and does not lead before that is undone' drained_leader
it 'who has a lock or waits for it cannot be drained' drained_lock
it 'a forced release says what will happen, and the history names the person' forced
it 'pausing and removing targets answer' pause_answers
it 'the words of other tools lead to ours, and a mistyped path makes no store' mistakes
it 'top shows unowned targets first, sorts, filters and quits' live
it 'an empty result says so on a terminal' nothing_there
it 'a target is moved, kept away and let go' moves
it 'a forced target goes where it is told' moves_by_force
it 'mistakes of move and release are explained' wrong_moves
finish
