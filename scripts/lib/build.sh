# Sets up build directories and builds in them. Needs output.sh and needs.sh.
# shellcheck shell=sh

# has_dropped DIR OPTION...: whether DIR was set up with an option that is not among these. Meson would keep its value.
has_dropped() (
    configured=$1/.configured
    shift
    sed -n '3,$s/=.*//p' "$configured" | while read -r name; do
        for option; do
            case $option in
            "$name="*) continue 2 ;;
            esac
        done
        say "$name"
    done | grep -q .
)

# configure DIR OPTION...: sets the build directory up. If only the options have changed, this is done in place, so that
# what is built there stays. It starts afresh for another compiler, another meson or another place of the sources, if an
# option was dropped, and if meson cannot do it in place. DIR/.configured says how it was done: what needs a fresh start,
# the programs that meson looks for, and the options, a line each. An option and its value are one word.
configure() {
    directory=$1
    shift
    base="$SOURCE_ROOT $CC $("$CC" --version 2>/dev/null | head -n 1) meson $(meson --version)"
    wanted=$(printf '%s\n' "$base" "scdoc: $(command -v scdoc)" "$@")
    if [ -f "$directory/build.ninja" ]; then
        [ "$(cat "$directory/.configured" 2>/dev/null)" != "$wanted" ] || return 0
        if [ "$(head -n 1 "$directory/.configured" 2>/dev/null)" = "$base" ] && ! has_dropped "$directory" "$@" &&
            meson setup --reconfigure "$directory" "$SOURCE_ROOT" "$@"; then
            printf '%s\n' "$wanted" >"$directory/.configured"
            return 0
        fi
    fi
    if [ -d "$directory/meson-private" ]; then
        rm -rf "$directory"
    fi
    meson setup "$directory" "$SOURCE_ROOT" "$@" && printf '%s\n' "$wanted" >"$directory/.configured"
}

# show_errors LOG: from the first error on; what comes before is meson's account of the machine.
show_errors() {
    sed -n '/FAILED:\|ERROR:\|: error: /,$p' "$1" | grep -Ev '^\[[0-9]+/[0-9]+\] ' | head -n 60
    grep -Eq 'FAILED:|ERROR:|: error: ' "$1" || tail -n 20 "$1"
}

# build_in DIR TARGETS OPTION...: quietly, unless it fails. TARGETS is a list of meson's targets; "" builds everything.
build_in() {
    build_directory=$1
    build_targets=$2
    shift 2
    { mkdir -p "$build_directory" && [ -w "$build_directory" ]; } 2>/dev/null ||
        die "cannot write to $build_directory; set BUILD_ROOT to a directory that you can write to"
    build_log=$(mktemp)
    build_status=0
    # meson looks for its targets before it looks whether there are new ones: hence build.ninja first.
    # shellcheck disable=SC2086 # a list
    { configure "$build_directory" "$@" && ninja -C "$build_directory" build.ninja &&
        meson compile -C "$build_directory" $build_targets; } >"$build_log" 2>&1 || build_status=1
    [ "$build_status" -eq 0 ] || show_errors "$build_log"
    rm -f "$build_log"
    return "$build_status"
}

# The tests and examples need cmocka and patch. A plain build has them where these are, and does without elsewhere.
with_tests() {
    if is_there library 'cmocka>=1.1.5' && is_there command patch; then say true; else say false; fi
}

# build_main TARGETS: in the main build directory, with what a plain build needs.
build_main() {
    require build
    build_in "$BUILD_ROOT/build" "$1" -Dwerror=true "-Dtests=$(with_tests)" || die 'the build failed'
}

# build_with_tests TARGETS: in the main build directory; the caller has required cmocka.
build_with_tests() {
    build_in "$BUILD_ROOT/build" "$1" -Dwerror=true -Dtests=true || die 'the build failed'
}

# build_program: the program and the shared library alone.
build_program() {
    build_main 'tenure:executable tenure:shared_library'
}
