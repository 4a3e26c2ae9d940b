#!/bin/sh
# './dev install' into a prefix of our own, and a stranger's program that is built against what it put there.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

prefix=$TAP_DIR/prefix

# pkg_config ARGUMENT...: knows the installed library and nothing of the build directory.
pkg_config() {
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenure.pc)") pkg-config "$@" tenure
}

library_directory() {
    pkg_config --variable=libdir
}

installs() {
    exits 0 env BUILD_ROOT="$TAP_DIR" "$TENURE_SOURCE/dev" install --prefix "$prefix"
    for file in bin/tenure include/tenure.h; do
        [ -f "$prefix/$file" ] || fail "$file is not there"
    done
    [ -f "$(library_directory)/libtenure.so" ] || fail 'the shared library is not there'
    [ -f "$(library_directory)/libtenure.a" ] || fail 'the static library is not there'
    find "$prefix" -type f
}

program_runs() {
    exits 0 "$prefix/bin/tenure" acquire job-1
    out_is 1
    exits 0 "$prefix/bin/tenure" version
    same 'the version of the pkg-config file' "$(pkg_config --modversion)" "$(printf '%s' "$OUT" | cut -d ' ' -f 2)"
}

example_builds() {
    # shellcheck disable=SC2046 # flags
    exits 0 "${CC:-cc}" -o "$CASE/program" "$TENURE_SOURCE/examples/guarded_write.c" $(pkg_config --cflags --libs)
    LD_LIBRARY_PATH=$(library_directory)
    export LD_LIBRARY_PATH
    exits 0 "$CASE/program" "$TENURE_STORE" report "$CASE/report"
    out_is 'written under token 1'
    exits 0 ldd "$CASE/program"
    out_has "$(library_directory)/libtenure.so.1"
}

example_links_statically() {
    # shellcheck disable=SC2046 # flags
    exits 0 "${CC:-cc}" -o "$CASE/program" "$TENURE_SOURCE/examples/guarded_write.c" $(pkg_config --cflags) \
        "$(library_directory)/libtenure.a" $(pkg_config --static --libs-only-l | sed 's/-ltenure//') -lpthread
    exits 0 "$CASE/program" "$TENURE_STORE" report "$CASE/report"
}

# The header must suit strangers: C11 with all warnings, and C++ keywords.
header_is_clean() {
    printf '#include <tenure.h>\nint main(void) { return tenure_version() == 0; }\n' >"$CASE/program.c"
    # shellcheck disable=SC2046 # flags
    exits 0 "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$CASE/program" "$CASE/program.c" \
        $(pkg_config --cflags --libs)
}

it './dev install puts the program, the libraries, the header and the pkg-config file there' installs
it 'the installed program runs' program_runs
it 'an example is built with pkg-config against the installed library, and runs' example_builds
it 'an example is linked with the static library, and runs' example_links_statically
it 'the installed header compiles as C11 without a warning' header_is_clean
finish
