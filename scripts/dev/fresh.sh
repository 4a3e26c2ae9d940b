# ./dev fresh; what happens inside the new machine is scripts/fresh.sh.
# shellcheck shell=sh

help_fresh() {
    cat <<'END'
usage: ./dev fresh [--mirror URL] [demo | test [NAME...]]

Makes a bare Debian 12 with debootstrap in a temporary directory, puts a clone of the last commit there, and runs the
commands of README as root: ./dev demo and then ./dev test, or one of them. So they are tried where nothing was
installed by hand. Exits with the exit code of the command that failed, or with 0. Whatever happens, all processes and
mounts of the machine end with this command, and its directory is removed.

The machine has the Debian archives, proxies and download settings that apt has here. Its network is that of this host.
It is in $TMPDIR, or /var/tmp, and takes up to 5 GB. build/fresh.tar keeps the bare system for the next time: delete
it to start from the archive again.

Options:
  --mirror URL   archive of Debian 12 (default: the first source of bookworm in the settings of apt)
  -h, --help     show this text

Arguments:
  WORD...        demo, or test and the names of suites and tests (default: demo, and then all tests)

Examples:
  ./dev fresh
  ./dev fresh test unit endings_apart

Time: a minute for the bare system the first time, two for what is installed, and what the commands take.
END
}

# sources_here: "deb URI SUITE main" for each archive of Debian 12 that apt knows here, in whatever form it is written.
sources_here() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep -E ' bookworm(-updates|-security)? main$' | sort -u
}

# apart COMMAND...: in a mount and a PID namespace of its own, so that all its processes and mounts end with it.
apart() {
    unshare --mount --propagation=private --pid --fork --kill-child "$@" &
    inside=$!
    wait "$inside"
    apart_status=$?
    inside= # the number may be another's from now on
    return "$apart_status"
}

remove_machine() {
    trap '' HUP INT TERM
    # unshare ignores SIGTERM. Its end is the end of everything inside, which takes the kernel a moment.
    [ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null
    for try in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf --one-file-system "$place" 2>/dev/null && return
        sleep "$try"
    done
    say "fresh: cannot remove $place" >&2
}

# make_base: the bare system, from the archive or as it was kept.
make_base() {
    base=$BUILD_ROOT/build/fresh.tar
    if [ ! -f "$base" ]; then
        say "fresh: debootstrap of Debian 12 from $mirror"
        mkdir -p "$BUILD_ROOT/build" || die "cannot create $BUILD_ROOT/build"
        apart debootstrap --variant=minbase bookworm "$machine" "$mirror" >"$place/log" 2>&1 || {
            tail -n 20 "$place/log"
            die 'debootstrap failed'
        }
        { tar -C "$machine" -cf "$base.new" . && mv "$base.new" "$base"; } || die "cannot write $base"
    else
        tar -C "$machine" -xf "$base" || die "cannot unpack $base"
    fi
}

# settle_in SOURCES: what the machine must know of this host to reach the archives; else it stays bare.
settle_in() {
    say "$1" >"$machine/etc/apt/sources.list"
    apt-config dump | grep '^Acquire::' | grep -Ev '^Acquire::(IndexTargets|CompressionTypes|Changelogs|cdrom)' \
        >"$machine/etc/apt/apt.conf.d/90host"
    cp /etc/resolv.conf "$machine/etc/resolv.conf"
    case $1 in
    *https:*) mkdir -p "$machine/etc/ssl/certs" && cp /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs/" ;;
    esac
    # An installed Debian has these names, and every container; debootstrap leaves them to the installer.
    [ -e "$machine/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost\n' >"$machine/etc/hosts"
    # The machine does not outlive a power failure: dpkg need not wait for the disk.
    say force-unsafe-io >"$machine/etc/dpkg/dpkg.cfg.d/unsafe-io"
}

# in_machine COMMAND [NAME...]
in_machine() {
    started=$(date +%s)
    say "fresh: ./dev $*"
    status=0
    apart sh scripts/fresh.sh "$machine" "$@" || status=$?
    say "fresh: ./dev $* ended with $status after $(($(date +%s) - started)) s"
    [ "$status" -eq 0 ] || exit "$status"
}

cmd_fresh() {
    mirror=
    parse_options fresh "$@"
    git rev-parse --is-inside-work-tree >/dev/null 2>&1 || die 'fresh must be run in a git checkout: it runs a clone of it'
    can_be_root || die 'fresh needs root or sudo: it mounts, and makes device files'
    [ "$(id -u)" -eq 0 ] || exec sudo "BUILD_ROOT=$BUILD_ROOT" ./dev fresh "$@"
    eval "set -- $OPERANDS"
    case "${1:-} $#" in
    ' 0' | 'demo 1' | 'test '*) ;;
    *) misused fresh "expected demo, or test and names, not '$*'" ;;
    esac
    require fresh
    if [ -n "$mirror" ]; then sources="deb $mirror bookworm main"; else sources=$(sources_here); fi
    mirror=$(say "$sources" | sed -n 's/^deb \([^ ]*\) bookworm main$/\1/p' | head -n 1)
    [ -n "$mirror" ] || die 'apt has no source of Debian 12 (bookworm) here; name an archive with --mirror URL'
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    [ -z "${http_proxy:-}" ] || export http_proxy
    [ -z "${https_proxy:-}" ] || export https_proxy

    umask 022
    inside=
    place=$(mktemp -d "${TMPDIR:-/var/tmp}/tenure-fresh.XXXXXX") || exit 1
    machine=$place/root
    trap remove_machine EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$machine" && make_base && chmod 755 "$place" "$machine"
    settle_in "$sources"
    git clone -q --no-hardlinks "$SOURCE_ROOT" "$machine/root/tenure" || die 'cannot clone the checkout'
    [ -z "$(git status --porcelain)" ] || say 'fresh: note: uncommitted changes are not in the clone'
    if [ $# -gt 0 ]; then
        in_machine "$@"
    else
        in_machine demo
        in_machine test
    fi
}
