#!/bin/sh
# The shared library loads a store's module when a URL names it, from beside itself and nowhere else; a program on SQLite
# loads none of the libraries that the other stores need.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

program=${TENURE_EXAMPLES:?}/guarded_write
built=$(dirname "$TENURE")

# write_to URL: the example, with the library and the modules of $CASE/lib. Nothing listens on port 1.
write_to() {
    env LD_LIBRARY_PATH="$CASE/lib" "$program" "$1" report "$CASE/report"
}
copy_library() {
    mkdir -p "$CASE/lib"
    cp "$(readlink -f "$built/libtenure.so")" "$CASE/lib/libtenure.so.0"
}

loads_little() {
    exits 0 ldd "$built/libtenure.so"
    for library in libpq libcurl libhiredis libssl libcrypto libldap; do out_lacks "$library"; done
    [ -n "${TENURE_SANITIZED:-}" ] || [ "$(printf '%s\n' "$OUT" | wc -l)" -le 8 ] || fail 'it needs many libraries'
    # What the process really has mapped, while it holds a lease.
    background holder "$TENURE_EXAMPLES/holder" "$TENURE_STORE" job-1 alice 5000
    holder=$PID
    until_true 10 grep -q acquired "$CASE/holder.out"
    ! grep -q 'libpq\|libcurl\|libhiredis\|libssl' "/proc/$holder/maps" || fail 'libraries of other stores are loaded'
    kill -s TERM "$holder"
    ended 0 "$holder"
}

# Each answers that the server cannot be reached, and so has been loaded.
each_is_loaded() {
    for url in redis://127.0.0.1:1 postgres://127.0.0.1:1/x etcd://127.0.0.1:1 http://127.0.0.1:1; do
        scheme=${url%%:*}
        [ -f "$built/tenure-$scheme.so" ] || continue
        exits 1 "$program" "$url" report "$CASE/report"
        err_has 'TENURE_E_UNREACHABLE'
    done
}

is_missing() {
    copy_library
    exits 0 write_to "$TENURE_STORE"
    exits 1 write_to redis://127.0.0.1:1
    err_has 'TENURE_E_UNSUPPORTED' 'cannot load the module for redis stores' 'libtenure0-redis' "$CASE/lib/tenure-redis.so"
}

# Installed, the modules have a directory of their own. A relative path of the library is right after a chdir, too.
has_own_directory() {
    copy_library
    mkdir "$CASE/lib/tenure-0" "$CASE/elsewhere"
    cp "$built/tenure-redis.so" "$CASE/lib/tenure-0/"
    exits 1 write_to redis://127.0.0.1:1
    err_has 'TENURE_E_UNREACHABLE'
    ln -s "$CASE/lib/libtenure.so.0" "$CASE/elsewhere/libtenure.so.0"
    cd "$CASE"
    exits 1 env LD_LIBRARY_PATH=elsewhere "$program" redis://127.0.0.1:1 report "$CASE/report"
    err_has 'TENURE_E_UNREACHABLE'
}

# stranger TEXT: builds a module of that source.
stranger() {
    printf '%s\n' "$1" >"$CASE/stranger.c"
    exits 0 "${CC:-cc}" -shared -fPIC -o "$CASE/lib/tenure-redis.so" "$CASE/stranger.c"
}
others_are_refused() {
    copy_library
    stranger 'const struct { const char *version; unsigned long rest[16]; } ten_store_module = {"9.9.9", {0}};'
    exits 1 write_to redis://127.0.0.1:1
    err_has 'TENURE_E_UNSUPPORTED' 'tenure-redis.so is version 9.9.9, but libtenure is version'
    version=$(sed -n 's/^#define TENURE_VERSION  *"\(.*\)"/\1/p' "$TENURE_SOURCE/include/tenure.h")
    stranger "const struct { const char *version; unsigned long rest[16]; } ten_store_module = {\"$version\", {0}};"
    exits 1 write_to redis://127.0.0.1:1
    err_has 'TENURE_E_UNSUPPORTED' 'tenure-redis.so and libtenure are from different builds'
    stranger 'int something;'
    exits 1 write_to redis://127.0.0.1:1
    err_has 'TENURE_E_UNSUPPORTED' 'tenure-redis.so is not a module of Tenure'
}

it 'a program on SQLite loads no library of another store' loads_little
it 'each of the other stores is loaded when a URL names it' each_is_loaded
it 'a missing module is an error that names its package' is_missing
it 'modules are found in their own directory, after a chdir, and through a symbolic link' has_own_directory
it 'a module of another version or build is refused' others_are_refused
finish
