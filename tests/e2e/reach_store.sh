#!/bin/sh
# What every store that is a server answers when it is out of reach, silent or something else, and to mistakes in its URL.
# FLEET_STORE says which. What the user reads names the server, comes in bounded time, and never shows a password.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/reach.sh
. "$TENURE_SOURCE/tests/lib/reach.sh"

TAP_AT_ONCE=4

# url ADDRESS [QUERY]: with a password where the store's URL may have one. tls_url is the same with TLS.
case $FLEET_STORE in
redis)
    url() { echo "redis://me:$SECRET@$1/0${2:+?$2}"; }
    tls_url() { echo "rediss://$1${2:+?$2}"; }
    ;;
etcd)
    url() { echo "etcd://me:$SECRET@$1${2:+?$2}"; }
    tls_url() { echo "etcds://$1?${2:+$2&}ca_file=$CASE/any.crt"; }
    ;;
postgres)
    url() { echo "postgres://me:$SECRET@$1/db${2:+?$2}"; }
    tls_url() { echo "postgres://$1/db?sslmode=require${2:+&$2}"; }
    ;;
http)
    url() { echo "http://$1${2:+?$2}"; }
    tls_url() { echo "https://$1?${2:+$2&}ca_file=$CASE/any.crt"; }
    ;;
esac

# An authority of our own: a machine need not have a list of them.
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=any -days 1 \
        -keyout "$CASE/any.key" -out "$CASE/any.crt" 2>/dev/null
}

nobody_there() {
    for command in 'acquire job' ls doctor watch 'show job' 'release job --force' 'target ls' nodes status 'resign job --from x'; do
        exits 3 "$TENURE" $command --store "$(url 127.0.0.1:1)"
        if [ "$command" = doctor ]; then ERR=$OUT; else out_is ''; fi # it reports what it finds
        err_has '127.0.0.1:1'
        lacks_secret
    done
    exits 3 "$TENURE" once job --store "$(url 127.0.0.1:1)" -- touch "$CASE/ran"
    err_has '127.0.0.1:1'
    [ ! -e "$CASE/ran" ] || fail 'the job was run'
    exits 3 "$TENURE" agent --targets store --poll exec:true --store-wait 0s --store "$(url 127.0.0.1:1)"
    err_has '127.0.0.1:1'
    lacks_secret
    refused 3 "$(url no-such-host.invalid)" no-such-host.invalid
    # By the environment, as people do.
    TENURE_STORE=$(url 127.0.0.1:1)
    exits 3 "$TENURE" ls
    lacks_secret
}

# A server that accepts and stays silent costs no more than the time-out, nor does one that sends a byte now and then.
silent() {
    certificate
    listener silent pass
    store=$(url "127.0.0.1:$PORT")
    short=$(url "127.0.0.1:$PORT" timeout=500ms)
    bounded 4000 7000 "$TENURE" acquire job --store "$store"
    bounded 400 1500 "$TENURE" acquire job --store "$short"
    bounded 400 1500 "$TENURE" ls --store "$short"
    bounded 400 2500 "$TENURE" doctor --store "$short"
    bounded 400 1500 "$TENURE" acquire job --store "$(tls_url "127.0.0.1:$PORT" timeout=500ms)"
    # A command that does not wait for a lock does not wait longer for its store.
    bounded 900 3000 "$TENURE" lock job --no-wait --store "$store" -- true
    bounded 1900 4000 "$TENURE" acquire job --wait 2s --store "$store"
    bounded 1900 4000 "$TENURE" once job --wait 2s --store "$store" -- true
    lacks_secret
    listener trickle '
while True:
    client.sendall(b"+")
    time.sleep(0.1)'
    bounded 0 1500 "$TENURE" acquire job --store "$(url "127.0.0.1:$PORT" timeout=500ms)"
}

# Something else than the store.
strangers() {
    listener web 'client.recv(9999); client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry"); client.close()'
    stranger
    listener page 'client.recv(9999); client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>"); client.close()'
    stranger
    listener json 'client.recv(9999); client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"); client.close()'
    stranger
    listener noise 'client.sendall(bytes(range(256)) * 100)'
    stranger
    listener huge 'client.recv(1000); client.sendall(b"*1000000000\r\n$1000000000000\r\n")'
    stranger
    listener closes 'client.close()'
    stranger
}
stranger() {
    begin=$(boot_ms)
    run "$TENURE" acquire job --store "$(url "127.0.0.1:$PORT" timeout=2s)"
    case $STATUS in
    1 | 3) ;;
    *) fail "exit code $STATUS" ;;
    esac
    out_is ''
    err_has "127.0.0.1:$PORT"
    printf '%s' "$ERR" | tr -d '\n' | LC_ALL=C grep -q '[[:cntrl:]]' && fail 'control characters of the stranger were printed'
    took 'ms until it gave up' "$(($(boot_ms) - begin))" 0 4000
    run "$TENURE" doctor --store "$(url "127.0.0.1:$PORT" timeout=2s)"
    [ "$STATUS" -ne 0 ] || fail 'doctor is content'
    lacks_secret
}

# STORE | URL | words that the message has. @ stands for an address where nobody listens.
bad_urls() {
    while IFS='|' read -r row_store row_url row_words; do
        [ "$row_store" = "$FLEET_STORE" ] || continue
        eval "set -- $row_words"
        refused 2 "$(printf '%s' "$row_url" | sed "s/@@/127.0.0.1:1/; s|CASE|$CASE|")" "$@"
    done <<'END'
redis|redis://@@?colour=red|colour
redis|redis://@@?ca_flie=x|ca_flie ca_file
redis|redis://@@?fresh=yes|fresh
redis|redis://@@?wait_replicas=many|wait_replicas
redis|redis://@@?timeout=5|timeout
redis|redis://@@?lease_key=lease|lease '{id}'
redis|redis://@@?lease_key={id}:{colour}|'{colour}'
redis|redis://@@?lease_key={ns}:{id}:{id}|once
redis|redis://@@?lease_key={ns}:{id|brace
redis|redis://@@?node_key={ns}:lease:{instance}|lease_key node_key
redis|redis://@@?lease_key=tenure:{ns}:{id}|tenure:
redis|redis://@@/first|first
redis|redis://@@/-1|-1
redis|redis://127.0.0.1:99999/0|99999
redis|redis://me:open-sesame-42@127.0.0.1:port/0|port
redis|redis://@@?ca_file=CASE/nowhere.pem|ca_file
redis|rediss://@@?ca_file=CASE/nowhere.pem|nowhere.pem
redis|redis+sentinel://@@|name
redis|redis+unix://|redis.sock
etcd|etcd://|etcd://127.0.0.1:2379
etcd|etcd://@@,,127.0.0.1:2|'empty host'
etcd|etcd://@@?colour=red|colour
etcd|etcd://@@?ca_flie=x|ca_file
etcd|etcd://@@?timeout=5|timeout
etcd|etcd://@@?password_file=CASE/nowhere|user
etcd|etcd://127.0.0.1:99999|99999
etcd|etcd://127.0.0.1:port|port
postgres|postgres://@@/db?colour=red|colour
postgres|postgres://@@/db?timeout=5|timeout
postgres|postgres://me@@@/db?password_file=CASE/nowhere|nowhere
postgres|postgres://127.0.0.1:99999/db|99999
http|http://@@?colour=red|colour
http|http://@@?timeout=5|timeout
http|http://me:open-sesame-42@127.0.0.1:1|token_file
http|http://@@?token_file=CASE/nowhere|nowhere
http|http://127.0.0.1:99999|99999
http|https://@@?ca_file=CASE/nowhere.pem|nowhere.pem
END
}

also 'nobody listens: exit 3, and no password, for every command' nobody_there
also 'a silent or trickling server costs no more than the time-out' silent
also 'somebody who is not the store is refused in bounded time' strangers
also 'mistakes in the URL are exit 2 before anybody is asked' bad_urls
gather
finish
