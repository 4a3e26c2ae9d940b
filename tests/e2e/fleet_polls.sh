#!/bin/sh
# What an agent does with polls by a command: what is published of them and how, time-outs, polls longer than the TTL,
# stopping in the middle of one.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/manager.sh
. "$TENURE_SOURCE/tests/lib/manager.sh"

# message_of OUTPUT-COMMAND: one poll by the command.
message_of() {
    "$TENURE" target add t-1 >/dev/null 2>&1 || :
    rm -f "$CASE/a.out"
    bare_agent a --targets store --poll "exec:$1" --publish -
    until_true 10 has_lines "$CASE/a.out" 1
    stop a
    all_json "$CASE/a.out"
    first_message "$CASE/a.out" t-1
}

outputs() {
    message_of 'echo "{\"x\": [1, 2.50, \"a\"], \"big\": 12345678901234567890123}"'
    same ok "$(field ok)" true
    case $OUT in *'"data":{"x": [1, 2.50, "a"], "big": 12345678901234567890123}}'*) ;; *) fail 'numbers do not keep their digits' ;; esac
    message_of 'printf "[1,\n  2]\n\n"'
    same data "$DATA" '[1, 2]'
    message_of 'echo 42'
    same data "$DATA" 42
    message_of 'echo null'
    same data "$DATA" null
    message_of 'echo "\"text\""'
    same data "$DATA" '"text"'
    message_of 'echo hello world'
    same data "$DATA" '"hello world"'
    message_of 'printf "one\ntwo\n"'
    same data "$DATA" '"one\ntwo"'
    message_of 'echo "{\"x\": 1} trailing"'
    same data "$DATA" '"{\"x\": 1} trailing"'
    message_of 'echo "{\"x\": 1, \"x\": 2}"'
    case $DATA in '"'*) ;; *) fail 'duplicate keys are not text' ;; esac
    message_of ':'
    same data "$DATA" '""'
    message_of 'printf "\377\376 bytes"'
    same ok "$(field ok)" true
}

# What the agent has open for itself, such as the sockets of its store, is not the poll's. What it was started with is.
descriptors() {
    [ "$1" != http ] || manager_up
    list='ls /proc/self/fd | tr "\n" " "'
    exec 9</dev/null
    usual=$(sh -c "$list")
    "$TENURE" target add t-1 >/dev/null
    bare_agent a --targets store --pid-namespace "$2" --poll "exec:$list" --publish -
    exec 9<&-
    until_true 10 has_lines "$CASE/a.out" 1
    stop a
    first_message "$CASE/a.out" t-1
    same 'descriptors of a poll' "$DATA" "\"$usual\""
    case $usual in *' 9 '*) ;; *) fail "the test has $usual" ;; esac
}

failures() {
    message_of 'echo some output; exit 7'
    same ok "$(field ok)" false
    case $(field error) in *'exit status 7'*) ;; *) fail "the error is $(field error)" ;; esac
    until_true 5 said a '"event":"poll_failed"' '"target":"t-1"' 'exit status 7'
    message_of 'kill -SEGV $$'
    case $(field error) in *'signal 11'*) ;; *) fail "the error is $(field error)" ;; esac
    message_of '/nowhere/at/all'
    case $(field error) in 'exit status 127: the shell did not find the command') ;; *)
        fail "the error is $(field error)" ;;
    esac
    # More than the kernel allows for one variable.
    printf '{"id":"t-1","spec":"%s"}\n' "$(head -c 140000 /dev/zero | tr '\0' x)" >"$CASE/long"
    rm -f "$CASE/a.out"
    bare_agent a --targets "file:$CASE/long" --poll exec:true --publish -
    until_true 10 has_lines "$CASE/a.out" 1
    stop a
    first_message "$CASE/a.out" t-1
    case $(field error) in *'its environment is too long; shorten the target'*) ;; *) fail "$(field error)" ;; esac
    message_of 'head -c 1048577 /dev/zero | tr "\0" x'
    same ok "$(field ok)" false
    case $(field error) in *'1 MiB'*) ;; *) fail "the error is $(field error)" ;; esac
}

exactly_one_mebibyte() {
    message_of 'head -c 1048576 /dev/zero | tr "\0" x'
    same ok "$(field ok)" true
    between 'size of the data' "${#DATA}" 1048578 1048578
}

environment() {
    "$TENURE" target add scene/a:1 --url http://localhost/x --spec '{"a": 1}'
    # shellcheck disable=SC2016
    TENURE_LOG_LEVEL=info bare_agent a --targets store --publish - \
        --poll 'exec:echo "$TENURE_TARGET|$TENURE_TOKEN|$TENURE_INSTANCE|$TENURE_NAMESPACE|$TENURE_URL|$TENURE_SPEC|${TENURE_STORE:-}"'
    until_true 10 has_lines "$CASE/a.out" 1
    instance=$(instance_of a)
    stop a
    OUT=$(head -n 1 "$CASE/a.out")
    case $(field data) in
    "scene/a:1|1|$instance|poll|http://localhost/x|{\"a\":1}|" | "scene/a:1|1|$instance|poll|http://localhost/x|{\"a\": 1}|") ;;
    *) fail "the environment is $(field data)" ;;
    esac
}

# Fault 38.
timed_out() {
    steady_ttl 1500
    LASTS=600000
    POLL_OPTIONS=${1:-}
    targets 2
    agent a --timeout "$((TTL * 5 / 2))ms"
    until_true $((TTL * 5 / 2000 + 60)) has_lines "$CASE/a.messages" 2
    first_message "$CASE/a.messages" t-1
    same ok "$(field ok)" false
    case $(field error) in *'timed out'*) ;; *) fail "the error is $(field error)" ;; esac
    took duration_ms "$(field duration_ms)" "$((TTL * 5 / 2 - 50))" "$((TTL * 5 / 2 + 2000))"
    same token "$(field _version)" 1
    kill -TERM "$(warden_of a)"
    pause_ms 200
    kill -TERM "$(warden_of a)" 2>/dev/null || : # hurries, if it has not ended already
    ended 0 "$(warden_of a)"
    same 'times that a lease was lost' "$(times_said a '"event":"lease_lost"')" 0
    sound --targets "$TARGETS"
}

longer_than_the_ttl() {
    steady_ttl 1500
    LASTS=$((TTL * 3))
    EVERY=600000
    POLL_OPTIONS='print 1'
    targets 1
    agent a --timeout 600s
    until_true 10 all_polled
    agent b --timeout 600s
    until_true $((TTL * 3 / 1000 + 60)) has_lines "$CASE/a.messages" 1
    first_message "$CASE/a.messages" t-1
    same ok "$(field ok)" true
    same token "$(field _version)" 1
    took duration_ms "$(field duration_ms)" "$((LASTS - 100))" "$((LASTS + 2500))"
    same 'times that a lease was lost' "$(times_said a '"event":"lease_lost"')" 0
    halt a b
    sound
}

# Fault 37: the poll is over within the agent's patience, and published, then the lease goes.
stopped_in_a_poll() {
    LASTS=3000
    EVERY=10000
    POLL_OPTIONS='print 1'
    targets 1
    agent a
    until_true 10 all_polled
    pause_ms 200
    kill -TERM "$(warden_of a)"
    pause_ms 300
    is_held t-1 || fail 'the lease was released while the poll was running'
    [ -n "$(pollers)" ] || has_lines "$CASE/a.messages" 1 || fail 'the poll was ended at once'
    ended 0 "$(warden_of a)"
    first_message "$CASE/a.messages" t-1
    same ok "$(field ok)" true
    is_free t-1 || fail 'the lease was not released'
    until_true 5 said a '"event":"lease_released"' '"reason":"shutdown"'
}
is_free() { [ "$(state_of "$1")" = free ]; }

stopped_in_an_endless_poll() {
    LASTS=60000
    targets 1
    agent a --timeout 100s
    until_true 10 all_polled
    begin=$(boot_ms)
    stop a
    took 'ms until the end' "$(($(boot_ms) - begin))" 1000 9000
    no_pollers || fail 'a poller is left'
    is_free t-1 || fail 'the lease was not released'
    sound
}

stopped_twice() {
    LASTS=60000
    POLL_OPTIONS=$1
    targets 2
    agent a --timeout 100s
    until_true 10 all_polled
    begin=$(boot_ms)
    kill -TERM "$(warden_of a)"
    pause_ms 200
    kill -INT "$(warden_of a)"
    ended 0 "$(warden_of a)"
    took 'ms until the end' "$(($(boot_ms) - begin))" 200 "$2"
    no_pollers || fail 'a poller is left'
    is_free t-1 || fail 'the lease was not released'
    sound
}

# A target whose poll hangs, and one that is polled five times a second.
slow_and_fast() {
    "$TENURE" target add slow quick
    bare_agent a --targets store --timeout 60s \
        --poll "exec:if [ \$TENURE_TARGET = slow ]; then exec $POLLER $CASE/polls poll 60000; else exec $POLLER $CASE/polls poll 20; fi"
    until_true 10 polled slow
    mark slow
    pause_ms 3000
    mark end
    sound --targets quick --bound 600 --from slow --until end
    same 'starts of slow' "$(starts_of slow)" 1
    repeated 'polls of the quick one' "$(starts_of quick)" 12 22 200
    kill -TERM "$WARDEN"
    pause_ms 100
    stop a
}

no_drift() {
    EVERY=250
    targets 1
    agent a
    until_true 180 on_a_grid
    stop a
}
# on_a_grid: the last twenty starts lie on one, that of the start which was the least late, plus up to a twentieth of the
# interval and what the machine adds. Starts that drift lie everywhere, always: half of the interval on average.
on_a_grid() {
    awk '$3 == "start" { at[n++ % 20] = $1 / 1000 }
         END {
             best = 250
             for (i in at) {
                 sum = 0
                 for (j in at)
                     sum += (at[j] - at[i] + 2500000) % 250
                 if (sum / 20 < best)
                     best = sum / 20
             }
             exit !(n >= 20 && best < 60)
         }' "$LOG"
}

also 'stdout that is one JSON value becomes data as it came, everything else a string' outputs
also 'a non-zero exit, a signal, a missing command and over 1 MiB of output are failures with an error' failures
also 'an output of exactly 1 MiB is published' exactly_one_mebibyte
also 'a command sees its target, token, instance, namespace, url and spec, and none of the settings' environment
also 'a poll inherits no descriptor of the agent' descriptors sqlite auto
also 'the same on a store with connections' descriptors http auto
also 'the same without a PID namespace' descriptors http off
also 'fault 38: a poll that hangs for several TTLs keeps its lease and is cut at its own time-out' timed_out
also 'a poll that ignores SIGTERM is cut at its time-out, too' timed_out stubborn
also 'a poll longer than the TTL keeps its lease and is not started a second time' longer_than_the_ttl
also 'fault 37: SIGTERM in a poll lets it end and publish, then releases, and exits with 0' stopped_in_a_poll
also 'fault 37: an endless poll is ended when patience ends, then the lease is released' stopped_in_an_endless_poll
also 'a second signal hurries' stopped_twice '' 2000
also 'a second signal hurries, also when the poll ignores SIGTERM' stopped_twice stubborn 3000
gather
it 'a slow target never delays another' slow_and_fast
it 'polls stay on the grid of their interval' no_drift
finish
