# A PostgreSQL server on another host has to prove who it is, unless the URL or the environment says otherwise; doctor
# warns of each weaker setting. The other host is an address of this one, in a network namespace of the test's own.
# shellcheck shell=sh source=tests/lib/tap.sh
if [ -z "${OWN_NETWORK:-}" ]; then
    if unshare --net true 2>/dev/null; then
        OWN_NETWORK=1 exec unshare --net sh "$0"
    fi
    echo '1..0 # SKIP network namespaces are not permitted'
    exit 0
fi
. "$TENURE_SOURCE/tests/lib/tap.sh"
# shellcheck source=tests/lib/postgres.sh
. "$TENURE_SOURCE/tests/lib/postgres.sh"

ELSEWHERE=192.0.2.1 # for documentation: nobody's

# certify AUTHORITY: a certificate of that authority for the server's address.
certify() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out server.csr
    printf 'subjectAltName = IP:%s' "$ELSEWHERE" >ext
    openssl x509 -req -in server.csr -CA "$1.pem" -CAkey "$1.key" -CAcreateserial -days 2 -extfile ext -out server.pem
} 2>>"$CASE/openssl.err"

# serve SETTING...: a server at both addresses.
serve() {
    POSTGRES=$(mktemp -d "${TMPDIR:-/tmp}/tenure-pg.XXXXXX")
    cp server.key server.pem "$POSTGRES" 2>/dev/null || :
    if [ "$(id -u)" -eq 0 ]; then chown -R "$(id -un postgres 2>/dev/null || echo nobody)" "$POSTGRES"; fi
    (cd "$POSTGRES" && as_postgres initdb -D "$POSTGRES/data" --no-sync --auth=trust -U tenure --encoding UTF8 --locale C) >initdb.out
    echo "host all all $ELSEWHERE/32 trust" >>"$POSTGRES/data/pg_hba.conf"
    background postgres as_postgres postgres -D "$POSTGRES/data" -k "$POSTGRES" -p 5432 \
        -c "listen_addresses=127.0.0.1,$ELSEWHERE" "$@"
    POSTGRES_PID=$PID
    until_true 60 query 5432 'SELECT 1'
}

url() { printf 'postgres://tenure@%s/postgres?timeout=10s%s' "$1" "${2:+&$2}"; }

without_encryption() {
    serve
    exits 3 "$TENURE" doctor --store "$(url "$ELSEWHERE")"
    err_has 'sslmode is verify-full for a server on another host' 'ca_file=FILE in the URL'
    exits 0 "$TENURE" doctor --store "$(url "$ELSEWHERE" sslmode=disable)"
    out_has 'warn  encryption' 'sslmode=disable: nothing is encrypted' 'leave sslmode out'
    exits 0 "$TENURE" doctor --store "$(url "$ELSEWHERE" sslmode=prefer)"
    out_has 'warn  encryption' 'sslmode=prefer'
    exits 0 "$TENURE" doctor --store "$(url 127.0.0.1)"
    out_has 'ok    encryption' 'the server is on this host'
    exits 0 "$TENURE" doctor --store "postgres:///postgres?host=$POSTGRES&user=tenure"
    out_has 'ok    encryption' 'the server is on this host'
    postgres_remove
}

with_encryption() {
    certify right
    certify_wrong=$(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=wrong \
        -keyout wrong.key -out wrong.pem 2>&1) || fail "$certify_wrong"
    serve -c ssl=on -c "ssl_cert_file=../server.pem" -c "ssl_key_file=../server.key"
    exits 0 "$TENURE" doctor --store "$(url "$ELSEWHERE" "ca_file=$CASE/right.pem")"
    out_has 'ok    encryption' "the server's name is verified"
    exits 3 "$TENURE" doctor --store "$(url "$ELSEWHERE")"
    err_has 'root certificate file' 'ca_file=FILE in the URL'
    exits 3 "$TENURE" doctor --store "$(url "$ELSEWHERE" "ca_file=$CASE/wrong.pem")"
    exits 0 "$TENURE" doctor --store "$(url "$ELSEWHERE" "sslmode=require")"
    out_has 'warn  encryption' 'any server can pass for this one'
    exits 0 "$TENURE" doctor --store "$(url "$ELSEWHERE" "sslmode=verify-ca&ca_file=$CASE/right.pem")"
    out_has 'warn  encryption' 'sslmode=verify-ca'
    PGSSLMODE=require
    export PGSSLMODE
    exits 0 "$TENURE" doctor --store "$(url "$ELSEWHERE")"
    out_has 'warn  encryption' 'sslmode=require'
    unset PGSSLMODE
    postgres_remove
}

ip link set lo up && ip address add "$ELSEWHERE/32" dev lo
it 'without encryption a server on another host is refused, and a weaker sslmode is what the URL says' without_encryption
it 'with encryption the server is verified, and doctor warns of each weaker sslmode' with_encryption
finish
