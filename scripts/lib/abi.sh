# The ABI of the shared library as text: the public functions and the types that they use, by abidw, and the numbers of
# the public constants, from the header. ./dev abi and ./dev lint use it. Needs output.sh and build.sh.
# shellcheck shell=sh

# shellcheck disable=SC2034 # for those who source this
recorded_abi=src/libtenure.abi

# build_abi_library: with debug information, in a directory of its own. The compiler is always gcc, because what abidw
# writes depends on the compiler.
build_abi_library() {
    require build
    (
        CC=gcc
        export CC
        build_in "$BUILD_ROOT/build-abi" tenure:shared_library --buildtype=debug -Dtests=false -Dbench=false
    ) || die 'the build failed'
}

# abi_constants: "NAME VALUE" for each enumerator and each error of the header. The debug information does not have those
# that no function uses as a type, such as flags.
abi_constants() {
    grep -oE '(TENURE_[A-Z_0-9]+ = -?[0-9]+|X\(TENURE_E_[A-Z_]+, -[0-9]+)' include/tenure.h |
        sed 's/^X(//; s/ = / /; s/, / /' | LC_ALL=C sort
}

# recorded_constants FILE: the same, from a file that write_abi has written.
recorded_constants() {
    sed -n '/^<!-- constants/,/^-->/{ /^TENURE_/p; }' "$1"
}

# write_abi FILE: the ABI of the library that build_abi_library has built. Types that are not in the public header are
# opaque. Nothing depends on the machine or on the directory of the build.
write_abi() {
    abidw --headers-dir include --drop-private-types --exported-interfaces-only --drop-undefined-syms --no-elf-needed \
        --no-corpus-path --no-comp-dir-path --no-show-locs --no-architecture --no-parameter-names --type-id-style hash \
        --out-file "$1.xml" "$BUILD_ROOT/build-abi/libtenure.so" &&
        {
            sed "s,path='[^']*/src/,path='src/," "$1.xml"
            printf '<!-- constants: names and values\n'
            abi_constants
            printf '%s\n' '-->'
        } >"$1"
    abi_status=$?
    rm -f "$1.xml"
    return "$abi_status"
}
