#!/bin/sh
# tenure elect: the command. How it is started and ended, what it is given, what becomes of its end, and the hooks.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck disable=SC2016 # commands are for the shells of the candidates

# ---- its end

# one CODE OPTION... -- COMMAND: elect ends with that code, and the role is free at once.
one() {
    one_expected=$1
    shift
    exits "$one_expected" "$TENURE" elect "$ROLE" --ttl 20s --log-format json "$@"
    role_is_free || fail 'the role was not released'
}
exit_codes() {
    one 0 -- true
    one 7 -- sh -c 'exit 7'
    one 255 -- sh -c 'exit 255'
    one 137 -- sh -c 'kill -KILL $$'
    one 143 -- sh -c 'kill -TERM $$'
    one 134 --pid-namespace off -- sh -c 'kill -ABRT $$'
    one 7 --pid-namespace off -- sh -c 'exit 7'
    one 0 --restart on-failure -- true
}
not_a_command() {
    one 127 -- no-such-command-anywhere
    err_has no-such-command-anywhere
    one 127 --pid-namespace off -- "$CASE/none"
    err_has "$CASE/none"
    echo 'echo no' >"$CASE/plain"
    one 126 -- "$CASE/plain"
    err_has "$CASE/plain"
    mkdir "$CASE/directory"
    one 126 --pid-namespace off -- "$CASE/directory"
}

on_failure() {
    RESTART=on-failure
    elect a -- sh -c '"$0" "$1" poll 50; echo x >>"$2"; [ "$(wc -l <"$2")" -ge 3 ] || exit 9' \
        "$POLLER" "$LOG" "$CASE/tries"
    ended 0 "$WARDEN"
    until_true 5 said a '"event":"command_ended"' '"reason":"done"' '"exit_status":9'
    never_two 3
    same 'terms' "$(terms)" 3
    role_is_free || fail 'the role was not released'
}

# pauses: ms between the starts in the log.
pauses() { awk '$3 == "start" { if (n++) printf "%d ", ($1 - last) / 1000; last = $1 } END { print "" }' "$LOG"; }

backoff() {
    LASTS=1
    candidate a
    until_true 20 has_terms 5
    pauses
    # shellcheck disable=SC2046
    set -- $(pauses)
    took 'ms before the second' "$1" 190 3000
    took 'ms before the third' "$2" 390 3000
    took 'ms before the fourth' "$3" 790 4000
    took 'ms before the fifth' "$4" 1590 5000
    # A pause is no reason to be late.
    mark stop
    stop a
    took 'ms until it has stopped' "$(($(boot_ms) - $(marked_ms stop)))" 0 1000
    never_two 5
}
marked_ms() { awk -v mark="$1" '$3 == "mark" && $4 == mark { at = $1 } END { printf "%d\n", at / 1000 }' "$LOG"; }

# The pauses are those of each candidate, however many there are.
backoff_of_three() {
    LASTS=1
    for name in a b c; do candidate $name; done
    until_true 10 somebody_leads
    pause_ms 3000
    repeated 'terms in three seconds' "$(terms)" 3 24 125
    halt a b c
    never_two 3
    for name in a b c; do grep -q " start $ROLE [0-9]* $name-" "$LOG" || fail "$name never led"; done
}

stubborn_stop() {
    KILL_AFTER=700
    POLL_OPTIONS='stubborn detach'
    first_leader a
    mark stop
    stop a
    took 'ms of the last sign of the command' "$(last_of stop a-)" 600 2000
    took 'ms until it had stopped' "$(($(boot_ms) - $(marked_ms stop)))" 600 3000
    never_two 1
    soon_true 3 no_pollers
    role_is_free || fail 'the role was not released'
}
stubborn_loss() {
    KILL_AFTER=60000
    POLL_OPTIONS='stubborn detach'
    first_leader a
    mark taken
    "$TENURE" resign "$ROLE" --from "$INSTANCE" --force
    took 'ms until it led again' "$(until_true 10 has_terms 2 && echo 0)" 0 0
    took 'ms of the last sign of the first command' "$(last_of_term 1)" 0 "$((TTL + 50))"
    kill -TERM "$(warden_of a)"
    pause_ms 200
    stop a # the second hurries
    never_two 2
    soon_true 3 no_pollers
}
# last_of_term N: ms from the mark `taken` to the last line of the Nth term.
last_of_term() {
    awk -v wanted="$1" '
        $3 == "mark" && $4 == "taken" { mark = $1 }
        $3 == "start" { n++; token[$5] = n }
        $3 != "mark" && token[$5] == wanted { last = $1 }
        END { printf "%d\n", (last - mark) / 1000 }' "$LOG"
}

hurried() {
    KILL_AFTER=60000
    POLL_OPTIONS='stubborn detach'
    first_leader a
    kill -TERM "$WARDEN"
    pause_ms 600
    is_gone "$WARDEN" && fail 'it did not wait for its command'
    role_is_held || fail 'the role was released before the command had ended'
    mark hurry
    stop a
    took 'ms until it has stopped' "$(($(boot_ms) - $(marked_ms hurry)))" 0 2000
    never_two 1
    soon_true 3 no_pollers
    role_is_free || fail 'the role was not released'
}

# The command ends first, then the role is released, then another leads.
in_order() {
    signal=$1
    KILL_AFTER=600000
    TTL=20000
    RENEW=5000
    elect a -- sh -c 'trap "echo $0; until [ -e \"$1\" ]; do sleep 0.02; done; exit 3" $0; echo ready
        while :; do sleep 0.02; done' "$signal" "$CASE/may-end"
    until_true 10 grep -q ready "$CASE/a.out"
    elect b -- sh -c 'echo ready; sleep 100'
    until_true 10 said b '"event":"lease_acquire_failed"'
    kill "-$signal" "$(warden_of a)"
    soon_true 3 grep -q "^$signal" "$CASE/a.out"
    pause_ms 300
    role_is_held || fail 'the role was released while the command ran'
    case $(role_is instance) in a-*) ;; *) fail 'another leads while the command runs' ;; esac
    [ ! -s "$CASE/b.out" ] || fail 'two lead'
    touch "$CASE/may-end"
    ended 0 "$(warden_of a)"
    until_true 5 grep -q ready "$CASE/b.out"
    until_true 5 said a '"event":"lease_released"' '"reason":"shutdown"'
    same 'signals that the command was given' "$(grep -c "^$signal" "$CASE/a.out")" 1
    stop b
}

# ---- what it is given

stdin_reaches() {
    printf 'one\ntwo\n' >"$CASE/lines"
    "$TENURE" elect "$ROLE" --pid-namespace "$1" --log-level error -- cat >"$CASE/out" <"$CASE/lines"
    same 'what came out' "$(cat "$CASE/out")" "$(cat "$CASE/lines")"
    { echo three; sleep 0.3; echo four; } |
        "$TENURE" elect "$ROLE" --pid-namespace "$1" --log-level error -- sh -c 'cat; echo end' >"$CASE/out"
    same 'what came out of a pipe' "$(tr '\n' ' ' <"$CASE/out")" 'three four end '
}

signals_pass() {
    # The child notes what it gets, too; it must get nothing.
    elect a --pid-namespace "$1" -- sh -c '
        for s in HUP USR1 USR2; do trap "echo $s" $s; done
        sh -c "for s in HUP USR1 USR2; do trap \"echo child \$s\" \$s; done; echo child; while :; do sleep 0.02; done" &
        echo ready
        while :; do sleep 0.02; done'
    until_true 10 grep -q '^child$' "$CASE/a.out"
    until_true 10 grep -q ready "$CASE/a.out"
    for signal in HUP USR1 USR2; do
        kill "-$signal" "$WARDEN"
        soon_true 3 grep -q "^$signal$" "$CASE/a.out"
    done
    pause_ms 200
    same 'what it was given' "$(sort "$CASE/a.out" | tr '\n' ' ')" 'HUP USR1 USR2 child ready '
    stop a
}

# To one that does not lead, they do nothing.
signals_to_a_follower() {
    first_leader a
    candidate b
    until_true 10 said b '"event":"lease_acquire_failed"'
    for signal in HUP USR1 USR2 WINCH; do kill "-$signal" "$WARDEN"; done
    pause_ms 300
    is_gone "$WARDEN" && fail 'a signal has ended it'
    mark stop
    stop b
    took 'ms until it has stopped' "$(($(boot_ms) - $(marked_ms stop)))" 0 1000
    stop a
    never_two 1
}

# terminal HOW COMMAND...: on a terminal of its own; CODE is how it ended, AFTER so many ms.
terminal() {
    echo "\$ elect_terminal.py $*"
    result=$("$PYTHON" "$TENURE_SOURCE/tests/lib/elect_terminal.py" "$CASE/terminal" "$@") || {
        cat "$CASE/terminal"
        fail 'it has not ended'
    }
    cat "$CASE/terminal"
    CODE=${result% *}
    AFTER=${result#* }
}
on_terminal() {
    terminal interrupt "$TENURE" elect "$ROLE" --pid-namespace "$1" -- \
        sh -c 'trap "echo given INT; exit 1" INT; echo ready; while :; do sleep 0.02; done'
    same 'the code after ^C' "$CODE" 0
    same 'times that the command was given it' "$(grep -c 'given INT' "$CASE/terminal")" 1
    role_is_free || fail 'the role was not released'
    terminal hangup "$TENURE" elect "$ROLE" --pid-namespace "$1" -- sh -c 'echo ready; exec sleep 100'
    same 'the code after a hangup' "$CODE" 0
    took 'ms until the end' "$AFTER" 0 4000
    role_is_free || fail 'the role was not released'
    # The second ^C hurries, also one that would take long.
    terminal interrupt-twice "$TENURE" elect "$ROLE" --pid-namespace "$1" --kill-after 60s -- \
        sh -c 'trap "echo first" INT; echo ready; while :; do sleep 0.02; done'
    same 'the code after ^C twice' "$CODE" 0
    role_is_free || fail 'the role was not released'
}

environment() {
    TENURE_TOKEN=old TENURE_TTL=7s KEPT='a b' "$TENURE" elect "$ROLE" --name me --log-level error -- env >"$CASE/env"
    sort "$CASE/env"
    grep -qx "TENURE_ROLE=$ROLE" "$CASE/env" || fail 'no TENURE_ROLE'
    grep -qxE 'TENURE_TOKEN=[1-9][0-9]*' "$CASE/env" || fail 'no TENURE_TOKEN'
    grep -qxE 'TENURE_INSTANCE=me-[0-9]{19}-[0-9a-f]{8}' "$CASE/env" || fail 'no TENURE_INSTANCE'
    grep -qx "TENURE_STORE=$TENURE_STORE" "$CASE/env" || fail 'TENURE_STORE is gone'
    grep -qx 'TENURE_TTL=7s' "$CASE/env" || fail 'TENURE_TTL is gone'
    grep -qx 'KEPT=a b' "$CASE/env" || fail 'another variable is gone'
    same 'times that TENURE_TOKEN is there' "$(grep -c '^TENURE_TOKEN=' "$CASE/env")" 1
    # With what it is given it can ask for itself.
    exits 0 "$TENURE" elect "$ROLE" --log-level error -- \
        sh -c '"$0" show "$TENURE_ROLE" --namespace leader --json' "$TENURE"
    same 'the state that it sees' "$(field state)" held
}

# What the candidate has open for itself is not the command's.
descriptors() {
    exits 0 ls /proc/self/fd # whoever runs the tests may have left something open
    usual=$OUT
    exits 0 "$TENURE" elect "$ROLE" --pid-namespace "$1" --log-level error -- ls /proc/self/fd
    same 'open descriptors' "$OUT" "$usual"
    exits 0 "$TENURE" elect "$ROLE" --pid-namespace "$1" --log-level error -- \
        sed -n 's/^\(SigBlk\|SigIgn\):[[:space:]]*//p' /proc/self/status
    same 'blocked and ignored signals' "$(echo "$OUT" | tr '\n' ' ')" '0000000000000000 0000000000000000 '
}

# ---- hooks

hooks() {
    RESTART=never
    for name in a b; do
        elect $name --on-elected "$POLLER $LOG mark elected-$name; sleep 0.2" \
            --on-demoted "sleep 0.3; $POLLER $LOG mark demoted-$name-\$TENURE_REASON" -- \
            "$POLLER" "$LOG" poll 600000
        until_true 10 "elected_or_knows" $name
    done
    until_true 10 somebody_leads
    stop a
    until_true 10 leads b
    stop b
    events=$(awk '$3 == "mark" || $3 == "start" { printf "%s ", $4 == "web" ? "start-" substr($6, 1, 1) : $4 }' "$LOG")
    same 'the order' "$events" \
        'elected-a start-a demoted-a-shutdown elected-b start-b demoted-b-shutdown '
    # The command had ended before its hook ran, and so had the hook before the next one's.
    awk '
        $3 == "mark" && $4 ~ /^demoted/ { if ($1 < last) exit 1; hook = $1 }
        $3 == "mark" && $4 ~ /^elected/ && $1 < hook { exit 1 }
        $3 == "start" || $3 == "beat" { last = $1 }' "$LOG" || fail 'a hook ran at the wrong time'
    awk '$3 == "mark" && $5 !~ /^[1-9]/ { exit 1 }' "$LOG" || fail 'the hooks have no token'
    never_two 2
}
elected_or_knows() { grep -q elected "$LOG" || said "$1" '"event":"lease_acquire_failed"'; }

hook_of_exit() {
    run "$TENURE" elect "$ROLE" --log-level error --on-demoted 'echo "$TENURE_REASON $TENURE_ROLE"' -- \
        sh -c 'echo work; exit 4'
    same 'its code' "$STATUS" 4
    out_is "work
done $ROLE"
}
# One that fails is told, and is not in the way.
hook_fails() {
    exits 0 "$TENURE" elect "$ROLE" --on-elected 'exit 5' --on-demoted 'kill -KILL $$' -- echo work
    out_is work
    err_has hook_failed 'status=5' 'status=137'
    role_is_free || fail 'the role was not released'
}
# One that hangs, in whatever way, is ended: by a second signal, or by its time.
hook_hangs_hurried() {
    RESTART=never
    elect a --on-demoted 'trap "" TERM; echo hook; while :; do sleep 1; done' -- sh -c 'echo work; sleep 100'
    until_true 10 grep -q work "$CASE/a.out"
    kill -TERM "$WARDEN"
    until_true 5 grep -q hook "$CASE/a.out"
    mark hurry
    stop a
    took 'ms until it has stopped' "$(($(boot_ms) - $(marked_ms hurry)))" 0 2000
    role_is_free || fail 'the role was not released'
}
hook_hangs() {
    RESTART=never
    elect a --on-demoted 'trap "" TERM; while :; do sleep 1; done' -- true
    began=$(boot_ms)
    ended 0 "$WARDEN"
    took 'ms that the hook was given' "$(($(boot_ms) - began))" 9000 14000
    role_is_free || fail 'the role was not released'
}
first_hook_hangs() {
    RESTART=never
    elect a --on-elected 'trap "" TERM; echo hook; while :; do sleep 1; done' -- echo work
    until_true 10 grep -q hook "$CASE/a.out"
    mark stop
    stop a
    took 'ms until it has stopped' "$(($(boot_ms) - $(marked_ms stop)))" 0 3000
    if grep -q work "$CASE/a.out"; then fail 'the command was started after all'; fi
    role_is_free || fail 'the role was not released'
}

# ---- as the first process of a container

zombies_of() {
    for process in /proc/[0-9]*/status; do
        awk '/^State:/ { z = $2 == "Z" } /^PPid:/ && z { print $2 }' "$process" 2>/dev/null || :
    done | grep -cxF "$1" || :
}
first_process() {
    # Its own /proc, which stays its own: in a chroot / is no mount, and unshare could not see to that by itself.
    # shellcheck disable=SC2016 # for the shell inside
    own_proc='mount --make-rprivate /proc && mount -t proc proc /proc && exec "$0" "$@"'
    background unshare unshare --pid --fork --mount --propagation unchanged sh -c "$own_proc" \
        "$TENURE" elect "$ROLE" --name container --ttl 5s --pid-namespace "$1" --log-format json -- sh -c '
        # Orphans: their parent is gone before they are.
        for i in 1 2 3 4 5; do sh -c "sleep 0.2 & :"; done
        "$0" "$1" poll 600000' "$POLLER" "$LOG"
    until_true 10 somebody_leads
    warden=$(cat "/proc/$PID/task/$PID/children")
    warden=${warden% }
    same 'its number in there' "$(awk '/^NSpid:/ { print $3 }' "/proc/$warden/status")" 1
    worker=$(cat "/proc/$warden/task/$warden/children")
    worker=${worker% }
    pause_ms 700
    for process in "$warden" "$worker" $(cat "/proc/$worker/task/$worker/children"); do
        same "zombies below $process" "$(zombies_of "$process")" 0
    done
    # A worker that dies is replaced, also there.
    first=$(leader)
    kill -KILL "$worker"
    until_true 10 another_leads "$first"
    mark stop
    kill -TERM "$warden"
    ended 0 "$PID"
    took 'ms until it has stopped' "$(($(boot_ms) - $(marked_ms stop)))" 0 3000
    role_is_free || fail 'the role was not released'
    never_two 2
}

also 'a hook at the end that hangs is ended after ten seconds' on_store_of_roles hook_hangs
also 'the code of the command is passed on, 128+N when it died of signal N, and the role is free at once' \
    on_store_of_roles exit_codes
also 'a missing command exits with 127, one that cannot be run with 126, and the message names it' \
    on_store_of_roles not_a_command
also '--restart on-failure campaigns again until the command succeeds' on_store_of_roles on_failure
also '--restart always campaigns again after growing pauses' on_store_of_roles backoff
also 'three candidates whose command exits at once take turns with growing pauses, too' \
    on_store_of_roles backoff_of_three
also 'a command that ignores SIGTERM is killed after --kill-after, with what it has detached' \
    on_store_of_roles stubborn_stop
also 'a command that ignores SIGTERM is killed before the lease ends when the role is taken away' \
    on_store_of_roles stubborn_loss
also 'a second signal hurries' on_store_of_roles hurried
also 'SIGTERM: the command ends first, then the role is released, then another leads' on_store_of_roles in_order TERM
also 'SIGINT: the same, and the command is given SIGINT' on_store_of_roles in_order INT
also 'the standard input reaches the command' on_store_of_roles stdin_reaches auto
also 'the standard input reaches the command, without a PID namespace' on_store_of_roles stdin_reaches off
also 'SIGHUP, SIGUSR1 and SIGUSR2 reach the command, and not its children' on_store_of_roles signals_pass auto
also 'the same without a PID namespace' on_store_of_roles signals_pass off
also 'on a terminal: ^C reaches the command once, a hangup ends it' on_store_of_roles on_terminal auto
also 'the same without a PID namespace' on_store_of_roles on_terminal off
also 'signals do nothing to one that waits, but SIGTERM and SIGINT' on_store_of_roles signals_to_a_follower
also 'the command has role, token and instance in its environment, and the rest as it was' on_store_of_roles environment
also 'the command inherits no descriptor and no mask of signals' on_store_of_roles descriptors auto
also 'the same without a PID namespace' on_store_of_roles descriptors off
also 'hooks: elected before the command, demoted after it and before the next one is elected' on_store_of_roles hooks
also 'the hook at the end is told the reason, and does not change the code' on_store_of_roles hook_of_exit
also 'a hook that fails is logged' on_store_of_roles hook_fails
also 'a hook at the end that hangs is ended by a second signal' on_store_of_roles hook_hangs_hurried
also 'a hook at the beginning that hangs is ended by SIGTERM, and no command starts' on_store_of_roles first_hook_hangs
if has_namespaces; then
    also 'as process 1 of a container it reaps orphans, replaces its worker, and ends on SIGTERM with 0' \
        on_store_of_roles first_process auto
    also 'the same with --pid-namespace off' on_store_of_roles first_process off
fi
gather
finish
