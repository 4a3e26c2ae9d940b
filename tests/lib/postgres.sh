# A private PostgreSQL, and a PgBouncer before it, for the end-to-end tests; sourced after tap.sh. They listen on sockets
# in a directory of their own, run as somebody who is not root, and end with the case.
# shellcheck shell=sh disable=SC2034 # POOLED_URL is for the tests

PATH=$PATH:/usr/sbin
for postgres_place in /usr/lib/postgresql/*/bin; do PATH=$postgres_place:$PATH; done

# as_postgres COMMAND...: PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" -ne 0 ]; then
        "$@"
    else
        postgres_user=$(id -un postgres 2>/dev/null || echo nobody)
        setpriv --reuid "$postgres_user" --regid "$(id -g "$postgres_user")" --clear-groups --pdeathsig KILL "$@"
    fi
}

# postgres_up: a new cluster, with a pooler. POOLED_URL goes through it, and hears of changes directly.
postgres_up() {
    POSTGRES=$(mktemp -d "${TMPDIR:-/tmp}/tenure-pg.XXXXXX")
    chmod 755 "$POSTGRES"
    if [ "$(id -u)" -eq 0 ]; then chown "$(id -un postgres 2>/dev/null || echo nobody)" "$POSTGRES"; fi
    cd "$POSTGRES" || fail "there is no $POSTGRES"
    as_postgres initdb -D "$POSTGRES/data" --no-sync --auth=trust -U tenure --encoding UTF8 --locale C >"$CASE/initdb.out"
    cd "$CASE" || fail "there is no $CASE"
    postgres_start
    printf '%s\n' '[databases]' "* = host=$POSTGRES port=5432 user=tenure" '[pgbouncer]' 'listen_addr =' 'listen_port = 6432' \
        "unix_socket_dir = $POSTGRES" 'auth_type = any' 'auth_file = /dev/null' 'pool_mode = transaction' \
        'default_pool_size = 3' >"$POSTGRES/pooler.ini"
    chmod 644 "$POSTGRES/pooler.ini"
    background pooler as_postgres pgbouncer -q "$POSTGRES/pooler.ini"
    DIRECT_URL="postgres:///postgres?host=$POSTGRES&user=tenure"
    POOLED_URL="postgres:///postgres?host=$POSTGRES&port=6432&user=tenure&listen_url=$(printf %s "$DIRECT_URL" | sed 's/:/%3A/g; s/?/%3F/; s/&/%26/g; s/=/%3D/g')"
    until_true 10 query 6432 'SELECT 1'
}
postgres_start() {
    background postgres as_postgres postgres -D "$POSTGRES/data" -k "$POSTGRES" -p 5432 -c listen_addresses=
    POSTGRES_PID=$PID
    until_true 20 query 5432 'SELECT 1'
}
# postgres_restart: it ends at once, as in a crash, and is started again.
postgres_restart() {
    kill -QUIT "$(head -n 1 "$POSTGRES/data/postmaster.pid")"
    wait "$POSTGRES_PID" 2>/dev/null || :
    postgres_start
}
# query PORT STATEMENT
query() { psql -h "$POSTGRES" -p "$1" -U tenure -d postgres -qAtc "$2" 2>>"$CASE/psql.err"; }
postgres_remove() {
    kill -QUIT "$(head -n 1 "$POSTGRES/data/postmaster.pid")" 2>/dev/null || :
    wait "$POSTGRES_PID" 2>/dev/null || :
    rm -rf "$POSTGRES"
}
