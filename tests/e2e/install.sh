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

# What it prints is enough for the program, the compiler, the dynamic linker and Python.
says_what_to_set() {
    exits 0 env BUILD_ROOT="$TAP_DIR" "$TENURE_SOURCE/dev" install --prefix "$prefix"
    printf '%s\n' "$OUT" | sed -n 's/^  //p' >"$CASE/settings"
    cat "$CASE/settings"
    cat >"$CASE/use.sh" <<END
set -eu
. "$CASE/settings"
tenure version
\${CC:-cc} -o "$CASE/program" "$TENURE_SOURCE/examples/guarded_write.c" \$(pkg-config --cflags --libs tenure)
"$CASE/program" "$TENURE_STORE" report "$CASE/report"
/usr/bin/python3 -c 'import tenure; print(tenure.__file__)'
END
    exits 0 sh "$CASE/use.sh"
    out_has 'written under token 1' "$prefix/lib/python3/dist-packages/tenure/__init__.py"
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
    out_has "$(library_directory)/libtenure.so."
    # The module of another store is found beside it.
    exits 1 "$CASE/program" redis://127.0.0.1:1 report "$CASE/report"
    err_has 'TENURE_E_UNREACHABLE'
}

# Each can be copied into a project that has warnings, by either compiler.
examples_build_everywhere() {
    for compiler in gcc clang; do
        command -v "$compiler" >/dev/null || continue
        for source in "$TENURE_SOURCE"/examples/*.c; do
            # shellcheck disable=SC2046 # flags
            exits 0 "$compiler" -Wall -Wextra -Wshadow -Wconversion -Werror -o "$CASE/program" "$source" \
                $(pkg_config --cflags --libs) -lpthread
        done
    done
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

# C++17, with the same flags that a careful project has.
cplusplus_example_builds() {
    # shellcheck disable=SC2046 # flags
    exits 0 "${CXX:-c++}" -std=c++17 -Wall -Wextra -Werror -o "$CASE/program" "$TENURE_SOURCE/examples/raii.cpp" \
        $(pkg_config --cflags --libs) -lpthread
    LD_LIBRARY_PATH=$(library_directory)
    export LD_LIBRARY_PATH
    background one "$CASE/program" "$TENURE_STORE" job-1
    one=$PID
    until_true 5 grep -q 'step 1 under token 1' "$CASE/one.out"
    exits 4 "$CASE/program" "$TENURE_STORE" job-1
    err_has 'job-1 is held by'
    ended 0 "$one"
    grep -q 'step 5 under token 1' "$CASE/one.out" || fail 'it did not get to the end'
    same 'the state' "$(state_of job-1)" free
    exits 1 "$CASE/program" nonsense job-1
}

manual_is_installed() {
    for page in man1/tenure.1 man1/tenure-elect.1 man7/tenure-stores.7 man3/libtenure.3 man3/tenure_acquire.3; do
        [ -f "$prefix/share/man/$page" ] || fail "$page is not there"
    done
    for file in bash-completion/completions/tenure zsh/site-functions/_tenure fish/vendor_completions.d/tenure.fish; do
        [ -f "$prefix/share/$file" ] || fail "$file is not there"
    done
    grep -q "^ExecStart=$prefix/bin/tenure serve" "$prefix/lib/systemd/system/tenure-serve.service"
    command -v man >/dev/null || return 0
    exits 0 man -M "$prefix/share/man" tenure_acquire
    out_has 'libtenure-lease'
}

it './dev install puts the program, the libraries, the header and the pkg-config file there' installs
it './dev install prints what to set, and that is enough' says_what_to_set
it './dev install puts the manual, the completions and the units there' manual_is_installed
it 'the installed program runs' program_runs
it 'an example is built with pkg-config against the installed library, and runs' example_builds
it 'every example compiles without a warning against the installed header' examples_build_everywhere
it 'an example is linked with the static library, and runs' example_links_statically
it 'a lease is a C++17 value that releases itself' cplusplus_example_builds
it 'the installed header compiles as C11 without a warning' header_is_clean
finish
