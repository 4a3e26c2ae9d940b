#!/bin/sh
# What cannot be looked at or signalled is there: processes whose first thread has ended, set-uid programs, a filter of
# system calls, no descriptors left, a frozen process, a /proc of others. The role is not released, and nothing runs
# beside it. Here nothing isolates the commands; tests/e2e/endings_isolation.sh is about what does.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck source=tests/lib/endings.sh
. "$TENURE_SOURCE/tests/lib/endings.sh"

NAMESPACE=off
TTL=2000
RENEW=500

# ---- a worker that is stopped: the warden ends the command by the deadline

stopped() {
    first_leader a b
    old=$INSTANCE
    mark stop
    freeze "$(worker_of "$(name_of "$old")")"
    until_true 15 another_leads "$old"
    took 'ms of the last sign of the old command' "$(last_of stop "$old")" 0 "$((TTL * 7 / 8 + 50))"
    halt a b
    never_two 2
    soon_true 3 no_pollers
}
stopped_in_thread() {
    POLL_OPTIONS=thread
    stopped
}
stopped_without_descriptors() {
    UNDER="$FORBID pidfd_open"
    stopped
}

# ---- a worker that is killed, and an ordinary end

killed_in_thread() {
    POLL_OPTIONS=thread
    SHELL_AROUND=yes
    first_leader a b
    mark kill
    kill -KILL "$(worker_of "$(name_of "$INSTANCE")")"
    handed_over kill 0 $((TTL + 3000))
    mark stop
    stop "$(name_of "$INSTANCE")"
    handed_over stop 0 $((TTL + 3000))
    halt a b
    never_two 3
    soon_true 3 no_pollers
}

# The store is locked for longer than the lease lasts: the worker ends the command itself.
locked_without_descriptors() {
    UNDER="$FORBID pidfd_open"
    first_leader a b
    old=$INSTANCE
    mark lock
    "$PYTHON" -c '
import sqlite3, sys, time
store = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
store.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))' "$CASE/store.db" "$(awk "BEGIN { print $TTL * 1.3 / 1000 }")"
    until_true 15 began_since lock
    took 'ms of the last sign of the old command' "$(last_of lock "$old")" 0 "$((TTL * 7 / 8 + 50))"
    halt a b
    never_two "$(terms)"
}

# ---- no descriptors

# The command has left something behind, and the worker cannot open /proc to look for it.
no_descriptors() {
    # shellcheck disable=SC2016 # for the shell inside
    elect a --pid-namespace off -- sh -c 'setsid "$0" "$1" poll 600000 & until [ -e "$2" ]; do sleep 0.05; done; exit 1' \
        "$POLLER" "$LOG" "$CASE/go"
    until_true 10 somebody_leads
    candidate b --pid-namespace off
    entered b
    worker=$(worker_of a)
    prlimit --pid "$worker" --nofile=3:
    touch "$CASE/go"
    until_true 10 said a '"event":"cannot_end_command"' 'Too many open files'
    mark later
    let_run "$((TTL * 2))"
    works_since later || fail 'what was left behind is gone, so nothing was tested'
    leads a || fail 'another leads beside what was left behind'
    prlimit --pid "$worker" --nofile=1024:
    until_true 10 leads b
    halt a b
    never_two 2
}

# ---- a /proc that shows other processes

foreign_proc() {
    # shellcheck disable=SC2016 # for the shell inside
    background a unshare --pid --fork "$TENURE" elect "$ROLE" --name a --ttl "${TTL}ms" --renew "${RENEW}ms" --restart always \
        --pid-namespace off --log-format json -- sh -c 'setsid "$0" "$1" poll 600000 & until [ -e "$2" ]; do sleep 0.05; done; exit 1' \
        "$POLLER" "$LOG" "$CASE/go"
    echo "$PID" >"$CASE/a.pid"
    until_true 10 somebody_leads
    candidate b --pid-namespace off
    entered b
    touch "$CASE/go"
    until_true 10 said a '"event":"cannot_end_command"'
    mark later
    let_run "$((TTL * 2))"
    works_since later || fail 'what was left behind is gone, so nothing was tested'
    leads a || fail 'another leads beside what was left behind'
    # shellcheck disable=SC2046
    kill -KILL $(pollers)
    until_true 10 leads b
    halt b
    kill -KILL "$(cat "/proc/$(warden_of a)/task/$(warden_of a)/children")"
    never_two 2
}

# ---- set-uid programs that have become another user

# Neither the worker nor the warden may signal them. Whoever they belong to releases nothing.
set_uid_left() {
    as_user
    "$@"
    set_uid_poller
    elect a --pid-namespace off -- sh -c '"$0" "$1" poll 600000 root & exec sleep 1000' "$POLLER" "$LOG"
    until_true 10 somebody_leads
    candidate b --pid-namespace off
    entered b
    mark stop
    kill -TERM "$(warden_of a)"
    until_true 10 said a '"event":"cannot_end_command"' 'Operation not permitted'
    let_run "$((TTL * 2))"
    leads a || fail 'another leads beside it'
    # shellcheck disable=SC2046
    kill -KILL $(pollers)
    until_true 10 leads b
    until_true 10 said a '"event":"lease_released"'
    halt b
    never_two 2
}

# hide_others: as with ProtectProc=invisible, /proc shows nobody the processes of other users. In a changed root, / is not
# a mount point: then unshare cannot make it private. /proc is one, and is enough.
hide_others() {
    # shellcheck disable=SC2016 # for the shell inside
    printf '#!/bin/sh\nexec unshare --mount --propagation unchanged sh -c %s sh "$@"\n' \
        "'mount --make-private /proc && mount -t proc -o hidepid=2 proc /proc && exec $UNDER \"\$@\"'" >"$CASE/hidden"
    chmod 755 "$CASE/hidden"
    UNDER=$CASE/hidden
    # shellcheck disable=SC2016
    $UNDER sh -c '[ ! -e /proc/1 ]' || fail 'nothing is hidden, so nothing is tested'
}

# Its worker is dead, so nobody renews: the lease is not released, but ends. Nothing new is started beside it here.
set_uid_killed() {
    TTL=120000 # it does not end before all has been looked at
    RENEW=30000
    as_user
    set_uid_poller
    POLL_OPTIONS=root
    first_leader a
    worker=$(worker_of a)
    mark kill
    kill -KILL "$worker"
    until_true 10 said a '"event":"cannot_end_command"' 'Operation not permitted'
    let_run 1000
    role_is_held || fail 'the role was released'
    same 'commands that have begun' "$(terms)" 1
    if said a '"event":"worker_crashed"'; then fail 'a new worker starts beside what cannot be ended'; fi
    # shellcheck disable=SC2046
    kill -KILL $(pollers)
    until_true 10 has_terms 2
    # shellcheck disable=SC2046
    kill -KILL $(pollers)
    never_two 2
}

# ---- a process that the kernel does not end: it sleeps, as on a disk that does not answer

FREEZER=/sys/fs/cgroup/freezer
has_freezer() { [ "$(id -u)" -eq 0 ] && [ -w "$FREEZER/cgroup.procs" ]; }
frozen() {
    first_leader a
    group=$FREEZER/tenure-test-$$-$TAP_COUNT
    trap 'echo THAWED >"$group/freezer.state"; end_all; until_true 5 rmdir "$group"' EXIT
    mkdir "$group"
    pollers >"$group/cgroup.procs"
    echo FROZEN >"$group/freezer.state"
    until_true 10 grep -qx FROZEN "$group/freezer.state"
    mark kill
    kill -KILL "$(worker_of a)"
    until_true 10 said a '"event":"cannot_end_command"' 'has not ended it yet'
    let_run "$((TTL * 2))"
    same 'commands that have begun' "$(terms)" 1
    if said a '"event":"worker_crashed"'; then fail 'a new worker starts beside what has not ended'; fi
    echo THAWED >"$group/freezer.state"
    until_true 10 has_terms 2
    halt a
    never_two 2
}

# ---- whoever has started it

# A parent that ignores SIGCHLD: then the kernel tells nobody how a process has ended, unless it is asked to.
ignored_ends() {
    UNDER="$CASE/ignoring"
    printf '#!%s\nimport os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execvp(sys.argv[1], sys.argv[1:])\n' \
        "$(command -v "$PYTHON")" >"$UNDER"
    chmod 755 "$UNDER"
    first_leader a
    worker=$(worker_of a)
    kill -KILL "$worker"
    until_true 10 has_terms 2
    stop a
    never_two 2
}

also 'a command whose first thread has ended is ended by the deadline when its worker is stopped' \
    on_store_of_roles stopped_in_thread
also 'a program whose first thread has ended, below a shell, is ended with a killed worker and before a release' \
    on_store_of_roles killed_in_thread
also 'where pidfd_open() is forbidden, the command of a stopped worker is ended by the deadline' \
    on_store_of_roles stopped_without_descriptors
also 'where pidfd_open() is forbidden, a worker whose store does not answer ends its command by the deadline' \
    on_store_of_roles locked_without_descriptors
also 'a worker without descriptors does not take what its command has left behind for gone' \
    on_store_of_roles no_descriptors
also 'a worker that was started with SIGCHLD ignored is replaced when it dies' on_store_of_roles ignored_ends
if has_users; then
    also 'SIGTERM while a set-uid program cannot be ended: the role is kept until it has ended' \
        on_store_of_roles set_uid_left :
    if has_namespaces; then
        also 'the same where /proc hides the processes of other users' on_store_of_roles set_uid_left hide_others
    fi
    also 'a killed worker whose set-uid command cannot be ended: no release, and no command beside it' \
        on_store_of_roles set_uid_killed
fi
if has_freezer; then
    also 'a killed worker whose command the kernel does not end: no command beside it until it has ended' \
        on_store_of_roles frozen
fi
if has_namespaces; then
    also 'where /proc shows the processes of another namespace, what was left behind is not taken for gone' \
        on_store_of_roles foreign_proc
fi
gather
finish
