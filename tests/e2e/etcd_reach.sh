#!/bin/sh
# An etcd that refuses us or speaks TLS; members that are down; two clusters in a URL. What the user reads names the
# server and what to do, comes in bounded time, and never shows a password. reach_store.sh has what all servers share.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck source=tests/lib/etcd.sh
. "$TENURE_SOURCE/tests/lib/etcd.sh"
# shellcheck source=tests/lib/reach.sh
. "$TENURE_SOURCE/tests/lib/reach.sh"

TAP_AT_ONCE=4
LASTS=60 # of a poll, not of a term

# The first member is dead, or accepts and never answers: the next one is asked within the time-out, by every kind of call.
next_member() {
    etcd_up
    listener silent pass
    for first in 127.0.0.1:1 "127.0.0.1:$PORT"; do
        url="etcd://$first,$(etcd_hosts)?timeout=3s"
        begin=$(boot_ms)
        exits 0 "$TENURE" acquire "job-$first" --store "$url"
        token=$OUT
        exits 0 "$TENURE" renew "job-$first" --token "$token" --store "$url"
        exits 0 "$TENURE" release "job-$first" --token "$token" --store "$url"
        exits 0 "$TENURE" ls --store "$url"
        exits 0 "$TENURE" target add "t-$first" --store "$url"
        took 'ms of five calls' "$(($(boot_ms) - begin))" 0 15000
    done
    # And an agent renews in time, although one member never answers.
    targets 3
    TTL=4000
    RENEW=1000
    agent a --store "etcd://127.0.0.1:$PORT,$(etcd_hosts)"
    until_true 15 all_polled
    mark on
    pause_ms "$((2 * TTL))"
    same 'times that it lost a lease' "$(times_said a '"event":"lease_lost"')" 0
    halt a
    sound --targets "$TARGETS" --bound 3000 --from on
}

# ---- users

# with_auth OPTION...: root, and a user who may use the prefix; strangers is one who may not.
with_auth() {
    etcd_up --bcrypt-cost 4 "$@" # else a login costs a busy machine seconds
    ctl user add root:root-pass >/dev/null
    ctl user grant-role root root >/dev/null
    ctl role add leases >/dev/null
    ctl role grant-permission leases --prefix=true readwrite tenure/ >/dev/null
    ctl user add "me:$SECRET" >/dev/null
    ctl user grant-role me leases >/dev/null
    ctl user add "stranger:$SECRET" >/dev/null
    ctl auth enable >/dev/null
    printf '%s\n' "$SECRET" >"$CASE/password"
    printf '%s-not\n' "$SECRET" >"$CASE/wrong"
    at=$(etcd_hosts)
}

users() {
    with_auth
    exits 0 "$TENURE" acquire job --store "etcd://me@$at?password_file=$CASE/password"
    exits 4 "$TENURE" acquire job --store "etcd://me:$SECRET@$at"
    lacks_secret
    refused 3 "etcd://$at" "127.0.0.1:" user
    refused 3 "etcd://me@$at?password_file=$CASE/wrong" 'password'
    refused 3 "etcd://nobody:$SECRET@$at" 'password'
    refused 2 "etcd://me@$at?password_file=$CASE/nowhere" "$CASE/nowhere"
    refused 2 "etcd://me@$at" password_file
    # Without permission: for acquire and for doctor, which says what to grant.
    refused 3 "etcd://stranger:$SECRET@$at" 'permission denied' 'tenure/'
    refused 3 "etcd://me:$SECRET@$at/elsewhere" 'permission denied' 'elsewhere/'
    run "$TENURE" doctor --store "etcd://stranger:$SECRET@$at"
    [ "$STATUS" -ne 0 ] || fail 'doctor is content'
    out_has 'FAIL  permissions' 'role grant-permission' 'readwrite'
    lacks_secret
    exits 0 "$TENURE" doctor --store "etcd://me:$SECRET@$at"
    out_has 'ok    permissions'
    out_lacks FAIL
    run "$TENURE" doctor --store "etcd://me@$at?password_file=$CASE/wrong"
    [ "$STATUS" -ne 0 ] || fail 'doctor is content'
    printf '%s\n%s\n' "$OUT" "$ERR" | grep -q 'user and password' || fail 'doctor does not name the password'
    lacks_secret
}

# Tokens end, are forgotten by a member that restarts, and are worthless after authentication was off: an agent that
# runs gets another, without losing a lease.
tokens_end() {
    TTL=12000
    RENEW=1000
    with_auth --auth-token-ttl 1
    TENURE_STORE="etcd://me@$at?password_file=$CASE/password"
    export TENURE_STORE
    targets 3
    agent a
    until_true 10 all_polled
    mark on
    pause_ms 3500
    member_kill 1
    member_begin 1
    pause_ms 2500
    ETCD_CTL_OPTIONS='--user=root:root-pass'
    until_true 10 ctl auth disable
    pause_ms 1000
    ETCD_CTL_OPTIONS=
    ctl auth enable
    pause_ms 2500
    mark later
    until_true 5 all_polled later
    mark end
    same 'times that it lost a lease' "$(times_said a '"event":"lease_lost"')" 0
    # It hears of changes, too: its watch has a new token.
    "$TENURE" target add t-9
    until_true 5 polled t-9
    halt a
    lacks_secret
    sound --targets "$TARGETS" --bound 4000 --from on --until end
}

# ---- TLS

etcd_certificates() {
    mkdir -p "$CASE/tls"
    for authority in ca other; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$authority" \
            -keyout "$CASE/tls/$authority.key" -out "$CASE/tls/$authority.crt" 2>/dev/null
    done
    for name in server client stranger; do
        case $name in stranger) authority=other ;; *) authority=ca ;; esac
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
            -keyout "$CASE/tls/$name.key" -out "$CASE/tls/$name.csr" 2>/dev/null
        printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' >"$CASE/tls/$name.ext"
        openssl x509 -req -in "$CASE/tls/$name.csr" -CA "$CASE/tls/$authority.crt" -CAkey "$CASE/tls/$authority.key" \
            -CAcreateserial -days 2 -extfile "$CASE/tls/$name.ext" -out "$CASE/tls/$name.crt" 2>/dev/null
    done
}

tls() {
    etcd_certificates
    ETCD_SCHEME=https
    ETCD_CTL_OPTIONS="--cacert=$CASE/tls/ca.crt --cert=$CASE/tls/client.crt --key=$CASE/tls/client.key"
    etcd_up --cert-file "$CASE/tls/server.crt" --key-file "$CASE/tls/server.key" --client-cert-auth \
        --trusted-ca-file "$CASE/tls/ca.crt"
    at=$(etcd_hosts)
    mine="cert_file=$CASE/tls/client.crt&key_file=$CASE/tls/client.key"
    good="etcds://$at?ca_file=$CASE/tls/ca.crt&$mine"
    exits 0 "$TENURE" acquire job --store "$good"
    exits 4 "$TENURE" acquire job --store "$good"
    exits 0 "$TENURE" doctor --store "$good"
    refused 3 "etcds://$at?$mine" "$at" certificate
    refused 3 "etcds://$at?ca_file=$CASE/tls/other.crt&$mine" "$at" certificate
    refused 3 "etcds://$at?ca_file=$CASE/tls/ca.crt" "$at"
    refused 2 "etcds://$at?ca_file=$CASE/nowhere.pem" "$CASE/nowhere.pem"
    refused 3 "etcds://$at?ca_file=$CASE/tls/ca.crt&cert_file=$CASE/tls/stranger.crt&key_file=$CASE/tls/stranger.key" "$at"
    refused 3 "etcds://localhost:${at#*:}?ca_file=$CASE/tls/ca.crt&$mine" localhost
    # In clear to a port that speaks TLS, and the other way round.
    refused 3 "etcd://me:$SECRET@$at?timeout=2s" "$at"
    # An agent watches over TLS as well.
    TENURE_STORE=$good
    export TENURE_STORE
    TTL=3000
    RENEW=700
    targets 2
    agent a
    until_true 10 all_polled
    "$TENURE" target add t-9
    soon_true 2 polled t-9
    halt a
}

# Whoever listens without TLS is not told anything in clear.
nothing_in_clear() {
    listener ear 'open(sys.argv[1] + ".heard", "ab").write(client.recv(9999)); client.close()'
    etcd_certificates
    # Without a ca_file nothing at all is sent where the machine has no list of authorities.
    refused 3 "etcds://me:$SECRET@127.0.0.1:$PORT?timeout=2s" "127.0.0.1:$PORT"
    refused 3 "etcds://me:$SECRET@127.0.0.1:$PORT?timeout=2s&ca_file=$CASE/tls/ca.crt" "127.0.0.1:$PORT"
    test -s "$CASE/ear.port.heard" || fail 'nothing was heard at all'
    # Long enough words: two letters are found in the random bytes of one TLS greeting in a hundred.
    if grep -aqE "POST /|/v3/|HTTP/1|$SECRET" "$CASE/ear.port.heard"; then fail 'something was sent in clear'; fi
    # A file of a certificate means TLS.
    : >"$CASE/ear.port.heard"
    refused 3 "etcd://me:$SECRET@127.0.0.1:$PORT?timeout=2s&ca_file=$CASE/tls/ca.crt" "127.0.0.1:$PORT"
    if grep -aqE "POST /|/v3/|HTTP/1|$SECRET" "$CASE/ear.port.heard"; then fail 'something was sent in clear'; fi
}

# ---- two clusters in one URL

# cluster_id NUMBER: as that member names it, in hexadecimal digits.
cluster_id() {
    printf '%x\n' "$(ctl_of "$1" endpoint status -w fields | awk -F ' : ' '/"ClusterID"/ { print $2 }')"
}
# Leases of two clusters know nothing of each other: nobody is let in by such a URL, in whatever order its hosts are.
two_clusters() {
    etcd_up
    first=$(etcd_hosts)
    first_id=$(cluster_id 1)
    CASE=$CASE/second # a second cluster of one member
    mkdir "$CASE"
    etcd_up
    second=$(etcd_hosts)
    second_id=$(cluster_id 1)
    CASE=${CASE%/second}
    [ "$first_id" != "$second_id" ] || fail 'both clusters have the same id: nothing is tested'
    for url in "etcd://$first,$second" "etcd://$second,$first"; do
        refused 3 "$url" "$first" "$second" "$first_id" "$second_id" 'one cluster in the URL'
        run "$TENURE" doctor --store "$url"
        [ "$STATUS" -ne 0 ] || fail 'doctor is content'
        printf '%s\n%s\n' "$OUT" "$ERR" | grep "cluster $first_id" | grep -q "cluster $second_id" ||
            fail 'doctor does not name the clusters'
        out_has FAIL
    done
    exits 0 "$TENURE" acquire job --store "etcd://$first"
    exits 0 "$TENURE" acquire job --store "etcd://$second"
}

# ---- doctor, and what is too short

three_members() {
    etcd_cluster
    exits 0 "$TENURE" doctor
    out_has 'ok    member' 'the leader' 'a follower' 'ok    permissions' 'ok    alarms' 'ok    latency'
    out_lacks FAIL
    exits 0 "$TENURE" doctor --json
    all_json
    down=$(($(etcd_leader) % 3 + 1))
    member_kill "$down"
    exits 0 "$TENURE" doctor
    out_has 'warn  member' "127.0.0.1:$(member_port "$down")" 'the leader' 'ok    permissions'
    exits 0 "$TENURE" acquire job
    member_kill "$(etcd_leader)"
    pause_ms 3000 # by now the last one has noticed
    begin=$(boot_ms)
    run "$TENURE" doctor
    case $STATUS in
    1 | 3) ;;
    *) fail "exit code $STATUS without a quorum" ;;
    esac
    printf '%s\n%s\n' "$OUT" "$ERR" | grep -qE 'quorum|without a leader' || fail 'doctor does not name the quorum'
    took 'ms of doctor without a quorum' "$(($(boot_ms) - begin))" 0 12000
    exits 3 "$TENURE" acquire job-2 --store "$TENURE_STORE?timeout=2s"
}

too_short() {
    etcd_up
    exits 2 "$TENURE" acquire job --ttl 1900ms
    err_has '2 s' 'etcd'
    out_is ''
    until_true 5 "$TENURE" acquire job --ttl 2s # which is tried for a sixth of that
    exits 2 "$TENURE" agent --targets store --poll exec:true --ttl 1500ms --renew 400ms
    err_has '2 s'
}

also 'a first member that is dead or silent: the next one is asked in time' next_member
also 'users, passwords and permissions: what is missing is told, and no password is shown' users
also 'tokens that ended are renewed without losing a lease' tokens_end
also 'TLS with a client certificate; without, with a wrong one, or in clear: refused' tls
also 'nothing is sent in clear when TLS is asked for' nothing_in_clear
also 'a URL that names members of two clusters is refused, with both ids' two_clusters
also 'doctor on three members, with one down, and without a quorum' three_members
also 'a TTL that etcd cannot keep is refused with the reason' too_short
gather
finish
