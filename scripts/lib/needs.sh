# Finds out what is missing for a command, and installs it. It looks for commands and libraries, not for packages, so
# that what was installed in another way is enough. scripts/needs.txt is the table.
# shellcheck shell=sh

# is_there KIND WHAT
is_there() {
    case $1 in
    command) command -v "$2" ;;
    server) command -v "$2" || ls /usr/sbin/"$2" || ls /usr/lib/postgresql/*/bin/"$2" ;; # where Debian has them
    library) pkg-config --exists "$(printf '%s' "$2" | sed 's/>=/ >= /')" ;;
    python) /usr/bin/python3 -c "import $2" ;; # the one that Debian's packages are for
    fuzzer) printf 'int LLVMFuzzerTestOneInput(void) { return 0; }\n' | clang -x c -fsanitize=fuzzer,address -o /dev/null - ;;
    compiler) printf '#include <stdio.h>\nint main(void) { return 0; }\n' | "$CC" -x c -o /dev/null - ;;
    esac >/dev/null 2>&1
}

# missing SET...: the packages of those needs that are not met, a line each.
missing() {
    while read -r set kind what packages; do
        case " $* " in
        *" $set "*) is_there "$kind" "$what" || printf '%s\n' "$packages" ;;
        esac
    done <"$SOURCE_ROOT/scripts/needs.txt" | tr ' ' '\n' | sort -u
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null
}

# as_root COMMAND...
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# The package of a server would start its daemon. Debian asks this file first; if it exists, it is the administrator's.
no_daemons=/usr/sbin/policy-rc.d
forbid_daemons() {
    [ ! -e "$no_daemons" ] || return 1
    printf '#!/bin/sh\nexit 101\n' | as_root sh -c "cat >$no_daemons && chmod 755 $no_daemons"
}

# install_packages PACKAGE...
install_packages() {
    can_be_root || die "cannot install these packages without root or sudo: $*"
    apt_log=$(mktemp)
    say "installing: $*"
    apt_started=$(date +%s)
    forbidden=
    if forbid_daemons; then
        forbidden=yes
        trap 'as_root rm -f "$no_daemons"' EXIT
        trap 'exit 1' INT TERM HUP
    fi
    # An archive that does not answer need not be the one that has these packages.
    as_root apt-get -q update >"$apt_log" 2>&1 || :
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@" >>"$apt_log" 2>&1 || {
        tail -n 20 "$apt_log" >&2
        rm -f "$apt_log"
        die "apt-get could not install: $*"
    }
    rm -f "$apt_log"
    say "installed in $(($(date +%s) - apt_started)) s"
    if [ -n "$forbidden" ]; then
        as_root rm -f "$no_daemons"
        trap - EXIT INT TERM HUP
    fi
}

# require SET...: afterwards everything that those sets name is there; otherwise this exits with 1.
require() {
    packages=$(missing "$@" | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    if ! command -v apt-get >/dev/null; then
        cat >&2 <<END
dev: missing packages, and there is no apt-get to install them. Debian calls them: $packages
Fedora: sqlite-devel jansson-devel libcurl-devel hiredis-devel openssl-devel libpq-devel mosquitto-devel
        libmicrohttpd-devel gnutls-devel libcmocka-devel
Arch:   sqlite jansson curl hiredis openssl postgresql-libs mosquitto libmicrohttpd gnutls cmocka
END
        exit 1
    fi
    # shellcheck disable=SC2086 # a list
    install_packages $packages
    packages=$(missing "$@" | tr '\n' ' ')
    [ -z "$packages" ] || die "the packages were installed, but what they should bring is still missing: $packages"
}
