#!/bin/sh
# The forms in which a command is kept together, each where it can be had: a PID namespace for root, a control group that
# was delegated, a user namespace for an ordinary user, and none. What each of them ends, and what is said when one cannot
# be had. `tenure doctor` and the log name the form.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck source=tests/lib/endings.sh
. "$TENURE_SOURCE/tests/lib/endings.sh"

TTL=3000
RENEW=700

# in_force FORM: what doctor says under the present user, and what a candidate does.
in_force() {
    # shellcheck disable=SC2086
    run $UNDER "$TENURE" doctor
    out_has "process isolation      $1"
    # shellcheck disable=SC2086
    exits 0 $UNDER "$TENURE" once form-"$1" --log-level debug --log-format json -- true
    err_has "\"event\":\"isolation\"" "\"isolation\":\"$1\""
}

# ---- warden and worker are killed together

# both_killed: nothing of the command is left, detached or not.
both_killed() {
    SHELL_AROUND=yes
    first_leader a
    until_true 10 detached_too
    mark kill
    kill_host a
    soon_true 3 no_pollers
}
detached_too() { [ "$(pollers | wc -l)" -ge 2 ]; }

root_namespace() {
    in_force pid-namespace
    POLL_OPTIONS=detach
    capable_poller
    both_killed
}
user_namespace() {
    as_user
    in_force user-namespace
    POLL_OPTIONS=detach
    capable_poller
    both_killed
}
# In a user namespace a command is who it was, and has the files that it had; but nobody becomes root there.
user_of_namespace() {
    as_user
    UNDER="setpriv --reuid=$ENDINGS_USER --regid=$ENDINGS_USER --groups=61299"
    echo secret >"$CASE/grouped"
    chown "0:61299" "$CASE/grouped"
    chmod 640 "$CASE/grouped"
    # shellcheck disable=SC2086
    exits 0 $UNDER "$TENURE" once who --log-level error -- sh -c 'id -u; id -g; cat "$0"; touch "$0.new"; stat -c %u "$0.new"' "$CASE/grouped"
    out_is "$ENDINGS_USER
$ENDINGS_USER
secret
$ENDINGS_USER"
    set_uid_poller
    # shellcheck disable=SC2086
    exits 98 $UNDER "$TENURE" once root --log-level error -- "$POLLER" "$LOG" poll 1000 root
    same 'commands that have begun' "$(terms)" 0
}

# ---- control groups

GROUPS_MOUNT=$(awk '/ - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
# Version 2 is there, may be written to, and can kill.
has_groups() {
    has_users && [ -n "$GROUPS_MOUNT" ] && mkdir "$GROUPS_MOUNT/tenure-test-$$" 2>/dev/null || return 1
    groups_kill=no
    [ ! -w "$GROUPS_MOUNT/tenure-test-$$/cgroup.kill" ] || groups_kill=yes
    rmdir "$GROUPS_MOUNT/tenure-test-$$"
    [ "$groups_kill" = yes ]
}
# delegated FUNCTION...: candidates run as an ordinary user, in a group that belongs to that user.
delegated() {
    GROUP=$GROUPS_MOUNT/tenure-test-$$-$TAP_COUNT
    mkdir "$GROUP"
    trap remove_group EXIT
    as_user
    chown -R "$ENDINGS_USER" "$GROUP"
    printf '#!/bin/sh\necho $$ >"%s/cgroup.procs"\nexec %s "$@"\n' "$GROUP" "$UNDER" >"$CASE/enter"
    chmod 755 "$CASE/enter"
    UNDER=$CASE/enter
    "$@"
}
remove_group() {
    end_all
    until_true 5 ended_group
    find "$GROUP" -depth -type d -exec rmdir {} \;
}
ended_group() {
    echo 1 >"$GROUP/cgroup.kill"
    find "$GROUP" -name cgroup.procs -exec cat {} + >"$CASE/grouped"
    while read -r process; do kill -KILL "$process" || :; done <"$CASE/grouped"
    empty_group
}
empty_group() { grep -qx 'populated 0' "$GROUP/cgroup.events"; }
groups_left() { find "$GROUP" -mindepth 1 -type d; }
no_groups_left() { [ -z "$(groups_left)" ]; }

group_form() {
    in_force cgroup
    until_true 5 no_groups_left
}
# group_ends OPTIONS: what the poller with these options leaves in its group is ended at a kill, a stop and an ordinary end.
group_ends() {
    POLL_OPTIONS=$1
    first_leader a b
    mark kill
    kill -KILL "$(worker_of "$(name_of "$INSTANCE")")"
    handed_over kill 0 "$((TTL - RENEW - 300))"
    old=$INSTANCE
    mark stop
    freeze "$(worker_of "$(name_of "$INSTANCE")")"
    until_true 15 another_leads "$old"
    took 'ms of the last sign of the old command' "$(last_of stop "$old")" 0 "$((TTL * 7 / 8 + 50))"
    mark ordinary
    INSTANCE=$(leader)
    stop "$(name_of "$INSTANCE")"
    handed_over ordinary 0 "$((TTL * 2))"
    halt a b
    never_two 4
    soon_true 3 no_pollers
    until_true 5 no_groups_left
}
# Set-uid programs that have become root, and are detached, too.
group_ends_root() {
    set_uid_poller
    group_ends 'root detach'
}
# cgroup.kill does not reach a process whose first thread has ended. These do not end when they are asked to, either.
group_ends_threads() {
    SHELL_AROUND=yes
    LASTS=120000
    group_ends 'stubborn thread'
}
# Of a poll that is over, and of one that timed out, a child has ended that nobody has reaped. The group counts as empty,
# the next poll comes, and the groups of those before are gone.
group_with_zombies() {
    UNDER="$UNDER env HOME=$CASE/home"
    # shellcheck disable=SC2086
    $UNDER "$TENURE" target add over late
    cat >"$CASE/poll" <<'SH'
echo over
sleep 0 &
if [ "$TENURE_TARGET" = late ]; then exec sleep 1000; fi
exec sleep 0.2
SH
    bare_agent a --targets store --timeout 1500ms --publish - --poll "exec:exec sh \"$CASE/poll\""
    until_true 10 said a '"isolation":"cgroup"'
    until_true 10 polled_with_zombies
    groups=$(groups_left | wc -l)
    between 'groups that are there' "$groups" 1 3 # the worker's, and one for each poll that runs
    stop a
    until_true 5 no_groups_left
}
polled_with_zombies() {
    [ "$(grep -c '"target":"over".*over' "$CASE/a.out")" -ge 4 ] && [ "$(grep -c '"target":"late".*timed out' "$CASE/a.out")" -ge 3 ]
}
# What has gone into another group is found by the walk.
left_the_group() {
    mkdir "$GROUP/elsewhere"
    chown -R "$ENDINGS_USER" "$GROUP/elsewhere"
    elect a -- sh -c 'sh -c "echo \$\$ >$2; exec setsid $0 $1 poll 600000" & sleep 1; exit 1' "$POLLER" "$LOG" "$GROUP/elsewhere/cgroup.procs"
    until_true 10 somebody_leads
    candidate b
    entered b
    until_true 10 leads b
    halt a b
    never_two "$(terms)"
    soon_true 3 no_pollers
}
# What two killed processes have left behind is ended by the next that starts there.
group_of_the_dead() {
    set_uid_poller
    POLL_OPTIONS='root detach'
    first_leader a
    until_true 10 detached_too
    kill_host a
    until_true 10 is_gone "$(warden_of a)"
    detached_too || fail 'nothing has survived, so nothing is tested'
    # shellcheck disable=SC2086
    exits 0 $UNDER "$TENURE" once another --log-level error -- true
    soon_true 3 no_pollers
    until_true 5 no_groups_left
}

# ---- what cannot be had

# Without namespaces and groups: none, by default; and nothing at all, if one is required.
not_to_be_had() {
    as_user
    UNDER="$UNDER $FORBID namespaces"
    in_force none
    # shellcheck disable=SC2086
    run $UNDER "$TENURE" doctor
    out_has 'CAP_SYS_ADMIN' 'Delegate=yes' 'CLONE_NEWUSER' 'Operation not permitted' 'set-uid commands'
    for verb in elect once; do
        # shellcheck disable=SC2086
        exits 1 $UNDER "$TENURE" "$verb" web --pid-namespace on -- touch "$CASE/ran"
        err_has '--pid-namespace on' 'Operation not permitted' 'CAP_SYS_ADMIN' 'CLONE_NEWUSER' '--pid-namespace auto'
    done
    # shellcheck disable=SC2086
    exits 1 $UNDER "$TENURE" agent --pid-namespace on --targets store --poll 'exec:true'
    err_has '--pid-namespace on'
    [ ! -e "$CASE/ran" ] || fail 'the command was run without isolation'
}
# What forbids process descriptors is named, too.
no_process_descriptors() {
    UNDER="$FORBID pidfd_open"
    # shellcheck disable=SC2086
    run $UNDER "$TENURE" doctor
    out_has 'warn  process descriptors    pidfd_open(): Operation not permitted' 'seccomp' 'ok    process endings'
}
# The ambient capabilities of a service are not for its commands: a user namespace takes nothing from them.
ambient_capabilities() {
    as_user --inh-caps=+net_bind_service --ambient-caps=+net_bind_service
    in_force user-namespace
    for wish in auto off; do
        # shellcheck disable=SC2086
        exits 0 $UNDER "$TENURE" once "web-$wish" --pid-namespace $wish --log-level error -- \
            sh -c 'grep -E "Cap(Inh|Eff|Amb)" /proc/self/status'
        same "capabilities with $wish" "$(printf '%s\n' "$OUT" | grep -vc '0000000000000000$')" 0
    done
}

# ---- the first process of a namespace

# first_processes: of the polls that run.
first_processes() { cat "/proc/$(worker_of a)/task"/*/children; }
has_first() { [ "$(first_processes | wc -w)" -eq 1 ] && grep -qzF tenure-first "/proc/$(first_processes | tr -d ' ')/cmdline"; }

# It is a program without libraries, and has nothing open that is the worker's.
small_first() {
    targets 1
    bare_agent a --targets store --timeout 100s --poll 'exec:exec sleep 1000'
    until_true 10 has_first
    first=$(first_processes | tr -d ' ')
    until_true 10 nothing_open "$first"
    if grep -F '.so' "/proc/$first/maps"; then fail 'it has libraries'; fi
    if said a first_process_copied; then fail 'the log says that it remained a copy'; fi
    halt a
}
nothing_open() { [ -z "$(find "/proc/$1/fd" -type l ! -name 0 ! -name 1 ! -name 2)" ]; }

# Where it cannot be that program, it remains a copy of the worker, which does the same.
copied_first() {
    UNDER="$FORBID execveat"
    EVERY=100
    targets 2
    bare_agent a --targets store --timeout 1s --publish - --poll 'exec:echo done; [ "$TENURE_TARGET" = "${TENURE_TARGET%1}" ] || sleep 1000'
    until_true 10 has_lines "$CASE/a.out" 3
    until_true 10 said a '"event":"first_process_copied"' 'Operation not permitted'
    until_true 10 said a '"event":"poll_failed"' 'timed out'
    same 'times that it was said' "$(times_said a first_process_copied)" 1
    stop a
}
# Both are stopped: it ends the command by itself.
copied_first_watches() {
    UNDER="$FORBID execveat"
    both_stopped
}
both_stopped() {
    targets 1
    bare_agent a --targets store --timeout 100s --poll "exec:trap '' TERM; exec \"$POLLER\" \"$CASE/polls\" poll 600000"
    until_true 10 some_pollers
    freeze "$(worker_of a)"
    freeze "$(warden_of a)"
    until_true 20 no_pollers
    kill -CONT "$(warden_of a)" "$(worker_of a)"
    halt a
}
some_pollers() { [ -n "$(pollers)" ]; }

# Who has left the command's group is asked to end, too, if the command does not end at once.
asks_everyone() {
    targets 1
    # shellcheck disable=SC2016 # for the shells inside
    {
        echo 'trap "touch \"$0.asked\"; exit" TERM; while :; do sleep 0.05; done' >"$CASE/detached"
        echo 'trap : TERM; setsid sh "$1" & while :; do sleep 0.05; done' >"$CASE/command"
    }
    bare_agent a --targets store --timeout 1s --poll "exec:exec sh \"$CASE/command\" \"$CASE/detached\""
    until_true 10 test -e "$CASE/detached.asked"
    halt a
}

# ---- isolation that fails for a moment

# scraped: what the agent's metrics are now, in OUT.
scraped() { OUT=$("$PYTHON" -c 'import sys, urllib.request; print(urllib.request.urlopen("http://%s/metrics" % sys.argv[1], timeout=20).read().decode())' "$1"); }
served_at() { sed -n 's/.*"event":"metrics_served".*"address":"\([^"]*\)".*/\1/p' "$CASE/$1.err" | tail -n 1; }
isolated() { tail -n "$1" "$CASE/spaces" | grep -vcxF "$(readlink /proc/self/ns/pid)" || :; }
last_is_isolated() { [ -s "$CASE/spaces" ] && [ "$(isolated 1)" -eq 1 ]; }
last_is_not_isolated() { [ -s "$CASE/spaces" ] && [ "$(isolated 1)" -eq 0 ]; }

# starving NAMESPACE: an agent whose polls write down their PID namespace. While the file `short` is there, none can be made.
starving() {
    NAMESPACE=$1
    UNDER="env LD_PRELOAD=$FAILING_CLONE_LIBRARY FAILING_CLONE=$CASE/short"
    targets 1
    bare_agent a --targets store --poll "exec:readlink /proc/self/ns/pid >>$CASE/spaces" --metrics 0
}
fails_for_a_moment() {
    starving auto
    until_true 10 last_is_isolated
    exits 0 "$TENURE" nodes --json
    out_has '"isolation":"pid-namespace"'
    touch "$CASE/short"
    until_true 10 last_is_not_isolated
    until_true 10 said a '"event":"isolation_failed"' '"isolation":"pid-namespace"' 'Resource temporarily unavailable'
    rm "$CASE/short"
    until_true 10 last_is_isolated
    until_true 10 said a '"event":"isolation_ok"' '"isolation":"pid-namespace"'
    same 'times that it failed' "$(times_said a isolation_failed)" 1
    scraped "$(served_at a)"
    out_has 'tenure_isolation{namespace="poll",form="pid-namespace"} 1' 'tenure_isolation{namespace="poll",form="none"} 0'
    failed=$(printf '%s\n' "$OUT" | sed -n 's/^tenure_commands_not_isolated_total{namespace="poll"} //p')
    [ "$failed" -ge 1 ] || fail "tenure_commands_not_isolated_total is '$failed'"
    stop a
}
# At the very start, too: it does not decide for the worker's life.
fails_at_first() {
    touch "$CASE/short"
    starving auto
    until_true 10 last_is_not_isolated
    until_true 10 said a '"event":"isolation_failed"'
    rm "$CASE/short"
    until_true 10 last_is_isolated
    until_true 10 said a '"event":"isolation_ok"'
    stop a
}
# Where it is required, nothing runs without, also in a worker that was made at such a moment.
required_for_a_moment() {
    starving on
    until_true 10 last_is_isolated
    touch "$CASE/short"
    until_true 10 said a '"event":"isolation_failed"'
    worker=$(worker_of a)
    kill -KILL "$worker"
    until_true 10 has_worker_other_than a "$worker"
    pause_ms $((EVERY * 3))
    rm "$CASE/short"
    : >"$CASE/spaces"
    until_true 10 last_is_isolated
    stop a
    same 'polls without isolation' "$(grep -cxF "$(readlink /proc/self/ns/pid)" "$CASE/spaces" || :)" 0
}
role_metrics() {
    elect a --metrics 0 -- "$POLLER" "$LOG" poll 600000
    until_true 10 somebody_leads
    scraped "$(served_at a)"
    out_has 'tenure_isolation{namespace="leader",form="' 'tenure_commands_not_isolated_total{namespace="leader"} 0'
    stop a
}

if has_namespaces; then
    also 'root: a PID namespace ends all of a command, also one with file capabilities, when warden and worker are killed' \
        on_store_of_roles root_namespace
    also 'isolation that is unavailable for a moment is tried again with the next command, logged and counted' \
        on_store fails_for_a_moment
    also 'the same at the very start' on_store fails_at_first
    also 'with --pid-namespace on nothing runs without isolation, also for a moment' on_store required_for_a_moment
    also 'where pidfd_open() is forbidden, doctor names it and endings work' on_store no_process_descriptors
    also 'the first process of a namespace is a small program, and has nothing open' on_store small_first
    also 'where it cannot be that program, it remains a copy of the worker, which the log says once' on_store copied_first
    also 'the first process ends the command by itself when worker and warden are both stopped' on_store both_stopped
    also 'so does a copy of the worker' on_store copied_first_watches
    also 'a namespace that is asked to end asks everyone in it, also who has left the group of the command' \
        on_store asks_everyone
fi
if has_users; then
    if setpriv --reuid="$ENDINGS_USER" --clear-groups unshare --user --pid --fork true 2>/dev/null; then
        also 'an ordinary user: a user namespace ends all of a command when warden and worker are killed' \
            on_store_of_roles user_namespace
        also 'in a user namespace a command keeps its user, groups and files, and cannot become root' \
            on_store_of_roles user_of_namespace
        also 'an ordinary user: ambient capabilities are not passed on to commands, in a user namespace or without' \
            on_store_of_roles ambient_capabilities
    fi
    also 'where no form is available, commands run without; if it is required, they are refused with the reason' \
        on_store_of_roles not_to_be_had
fi
if has_groups; then
    also 'a delegated control group is used, and nothing of it is left' on_store_of_roles delegated group_form
    also 'a control group ends set-uid programs that have become root, at a kill, a stop and an ordinary end' \
        on_store_of_roles delegated group_ends_root
    also 'a control group ends programs whose first thread has ended, at a kill, a stop and an ordinary end' \
        on_store_of_roles delegated group_ends_threads
    also 'children that nobody has reaped keep no control group and hold up no poll' \
        on_store_of_roles delegated group_with_zombies
    also 'what has moved into another control group is ended, too' on_store_of_roles delegated left_the_group
    also 'what a killed warden and worker have left in their control group is ended by the next that starts there' \
        on_store_of_roles delegated group_of_the_dead
fi
also 'the metrics of a candidate name the isolation of its command' on_store_of_roles role_metrics
gather
finish
