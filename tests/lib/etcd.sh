# Private etcd members for the end-to-end tests: one, or a cluster of three, on ports of the loopback address; sourced
# after tap.sh and fleet.sh. Their data are in the case's directory, and they end with the case, also when the test
# itself is killed.
# shellcheck shell=sh disable=SC2034,SC2120 # the URLs, the leader and some arguments are for the tests

ETCD_SCHEME=http # https: with the certificates of etcd_certificates

# ---- members

# etcd_up [OPTION...]: one member, and the case's store. etcd_cluster [OPTION...]: three.
etcd_up() { etcd_members 1 "$@"; }
etcd_cluster() { etcd_members 3 "$@"; }

# etcd_members COUNT [OPTION...]: their ports are chosen at random below those that the kernel gives away, and others if
# somebody has one; they stay the same for the case.
etcd_members() {
    ETCD_COUNT=$1
    shift
    for etcd_option in "$@"; do printf '%s\n' "$etcd_option"; done >"$CASE/etcd.options"
    etcd_tries=0
    until etcd_try; do
        etcd_tries=$((etcd_tries + 1))
        [ "$etcd_tries" -lt 5 ] || fail "no etcd could be started: $(tail -n 5 "$CASE"/m1.err)"
    done
    TENURE_STORE=etcd://$(etcd_hosts)
    export TENURE_STORE
    FLEET_STORE=etcd
}
etcd_try() {
    etcd_base=$((10000 + $(od -An -N2 -tu2 /dev/urandom) % 22000))
    for etcd_each in $(seq "$ETCD_COUNT"); do rm -rf "$CASE/m$etcd_each.data"; done
    for etcd_each in $(seq "$ETCD_COUNT"); do member_begin "$etcd_each"; done
    for etcd_each in $(seq "$ETCD_COUNT"); do
        until_true 20 etcd_healthy_or_dead "$etcd_each"
        if is_gone "$(warden_of "m$etcd_each")"; then
            for etcd_other in $(seq "$ETCD_COUNT"); do member_kill "$etcd_other"; done
            return 1
        fi
    done
}
etcd_healthy_or_dead() { is_gone "$(warden_of "m$1")" || member_is_healthy "$1"; }

member_port() { echo "$((etcd_base + 2 * $1))"; }
# etcd_hosts [FIRST]: of the URL, from that member on.
etcd_hosts() {
    etcd_list=
    for etcd_each in $(seq "$ETCD_COUNT"); do
        etcd_which=$(((etcd_each + ${1:-1} - 2) % ETCD_COUNT + 1))
        etcd_list="$etcd_list${etcd_list:+,}127.0.0.1:$(member_port "$etcd_which")"
    done
    echo "$etcd_list"
}
etcd_peers() {
    for etcd_each in $(seq "$ETCD_COUNT"); do printf 'm%s=http://127.0.0.1:%s,' "$etcd_each" "$(($(member_port "$etcd_each") + 1))"; done
}

# member_begin NUMBER: (again) with its data; does not wait.
member_begin() {
    etcd_me=m$1
    etcd_client=$ETCD_SCHEME://127.0.0.1:$(member_port "$1")
    etcd_peer=http://127.0.0.1:$(($(member_port "$1") + 1))
    etcd_all=$(etcd_peers)
    set --
    while IFS= read -r etcd_option; do set -- "$@" "$etcd_option"; done <"$CASE/etcd.options"
    background "$etcd_me" setpriv --pdeathsig KILL etcd --name "$etcd_me" --data-dir "$CASE/$etcd_me.data" \
        --listen-client-urls "$etcd_client" --advertise-client-urls "$etcd_client" \
        --listen-peer-urls "$etcd_peer" --initial-advertise-peer-urls "$etcd_peer" --initial-cluster "${etcd_all%,}" \
        --logger zap --log-level warn "$@"
    echo "$PID" >"$CASE/$etcd_me.pid"
}
member_is_healthy() { ctl_of "$1" endpoint health --command-timeout=2s >/dev/null 2>&1; }
# member_start NUMBER: and waits until it takes part.
member_start() {
    member_begin "$1"
    until_true 20 member_is_healthy "$1"
}
# member_end NUMBER [SIGNAL] / member_kill NUMBER
member_end() {
    kill "-${2:-TERM}" "$(warden_of "m$1")" 2>/dev/null || :
    wait "$(warden_of "m$1")" 2>/dev/null || :
}
member_kill() { member_end "$1" KILL; }
member_pause() { freeze "$(warden_of "m$1")"; }
member_continue() { kill -CONT "$(warden_of "m$1")"; }

# ---- looking into it

# ctl_of NUMBER WORD...: etcdctl at that member. ctl WORD...: at all.
ctl_of() {
    etcd_at=$1
    shift
    # shellcheck disable=SC2086
    ETCDCTL_API=3 etcdctl --endpoints="$ETCD_SCHEME://127.0.0.1:$(member_port "$etcd_at")" ${ETCD_CTL_OPTIONS:-} "$@"
}
ctl() {
    # shellcheck disable=SC2086
    ETCDCTL_API=3 etcdctl --endpoints="$(etcd_hosts)" ${ETCD_CTL_OPTIONS:-} "$@"
}
# etcd_leader: the number of the member that leads, by its own word; 0: none.
etcd_leader() {
    for etcd_each in $(seq "$ETCD_COUNT"); do
        if ctl_of "$etcd_each" endpoint status --command-timeout=500ms -w fields 2>/dev/null |
            awk -F ' : ' '/"MemberID"/ { me = $2 } /"Leader"/ { leader = $2 } END { exit !(me != "" && me == leader) }'; then
            echo "$etcd_each"
            return
        fi
    done
    echo 0
}
# led_by_other NUMBER: another leads.
led_by_other() {
    etcd_found=$(etcd_leader)
    [ "$etcd_found" -ne 0 ] && [ "$etcd_found" -ne "$1" ]
}
etcd_revision() { ctl get nothing -w fields | sed -n 's/^"Revision" : //p'; }
