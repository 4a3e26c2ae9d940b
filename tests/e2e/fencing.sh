#!/bin/sh
# docs/FENCING.md as it is printed: its statements in SQLite, its script in Redis, its program in C, its filter.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"
# shellcheck source=tests/lib/guard.sh
. "$TENURE_SOURCE/tests/lib/guard.sh"

# block LANGUAGE NUMBER: the how manyeth block of that language.
block() {
    awk -v fence="\`\`\`$1" -v wanted="$2" '
        $0 == "```" { inside = 0 }
        inside && count == wanted { print }
        $0 == fence { inside = 1; count++ }' "$TENURE_SOURCE/docs/FENCING.md" | grep . || fail "no block $2 of $1"
}

# sql TOKEN VALUE: the document's statement; prints how many rows it changed.
sql() {
    {
        printf '.parameter set :target a\n.parameter set :token %d\n.parameter set :value %s\n' "$1" "$2"
        cat statement.sql
        echo 'SELECT changes();'
    } | sqlite3 data.db
}
row() { sqlite3 data.db 'SELECT token, value FROM reading'; }

insert_in_sql() {
    sqlite3 data.db 'CREATE TABLE reading (target TEXT PRIMARY KEY, token BIGINT NOT NULL, value TEXT)'
    block sql 1 >statement.sql
    same 'rows of the first holder' "$(sql 42 old)" 1
    same 'rows of the second' "$(sql 43 new)" 1
    same 'rows of the first, late' "$(sql 42 late)" 0
    same 'the row' "$(row)" '43|new'
    same 'rows of the second, again' "$(sql 43 newer)" 1
    same 'the row' "$(row)" '43|newer'
}

update_in_sql() {
    sqlite3 data.db "CREATE TABLE reading (target TEXT PRIMARY KEY, token BIGINT NOT NULL, value TEXT);
        INSERT INTO reading VALUES ('a', 0, 'none')"
    block sql 2 >statement.sql
    same 'rows of the first holder' "$(sql 9007199254740990 old)" 1
    same 'rows of the second' "$(sql 9007199254740991 new)" 1
    same 'rows of the first, late' "$(sql 9007199254740990 late)" 0
    same 'the row' "$(row)" '9007199254740991|new'
}

in_redis() {
    redis_up
    block lua 1 >fence.lua
    same 'the first holder' "$(redis --eval fence.lua data:a , 9007199254740990 old)" 1
    same 'the second' "$(redis --eval fence.lua data:a , 9007199254740991 new)" 1
    same 'the first, late' "$(redis --eval fence.lua data:a , 9007199254740990 late)" 0
    same 'the second, again' "$(redis --eval fence.lua data:a , 9007199254740991 newer)" 1
    same 'the hash' "$(redis HMGET data:a token value | tr '\n' ' ')" '9007199254740991 newer '
}

in_c() {
    block c 1 >consumer.c
    build=$(dirname "$TENURE")
    ${CC:-cc} -Wall -Wextra -Werror -o consumer consumer.c -I "$TENURE_SOURCE/include" -L "$build" -ltenure \
        -Wl,-rpath,"$build"
    take a
    hand_over a
    printf 'a 1\na 2\na 3\n' >in
    run sh -c './consumer "$TENURE_STORE" <in'
    same 'the exit code' "$STATUS" 0
    out_is 'a 2'
    err_has 'token 1 of a is stale: the newest is 2' 'token 3 of a was never granted'
}

as_a_filter() {
    exits 0 "$TENURE" acquire scene-01 --namespace scenes
    # The document's message, which is under token 42.
    block json 1 | sed 's/42/1/' >in
    mosquitto_sub() { cat in; }
    analytics() { cat >seen; }
    PATH=$(dirname "$TENURE"):$PATH
    eval "$(block sh 1)"
    cmp in seen
}

it 'the guarded insert refuses a stale writer' insert_in_sql
it 'the guarded update refuses a stale writer' update_in_sql
it 'the script refuses a stale writer' in_redis
# A program that is not sanitized cannot load a library that is.
if [ -z "${TENURE_SANITIZED:-}" ]; then it 'the program in C refuses a stale message' in_c; fi
it 'the filter passes the message' as_a_filter
finish
