#!/bin/sh
# The first process of the machine of ./dev fresh, which starts it as root in a mount and a PID namespace of its own:
# makes the directory the root of that namespace, and runs a command of ./dev there. A changed root (chroot) alone would
# not do: nobody can make a user namespace in one. It waits instead of becoming the command, because the first process
# has to reap what others leave behind.
set -u
machine=${1:?usage: scripts/fresh.sh DIRECTORY COMMAND...}
shift
mount --bind "$machine" "$machine" && cd "$machine" &&
    mount -t proc proc proc &&
    mount --rbind /sys sys && # with the control groups
    mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts &&
    mount -t tmpfs -o mode=1777 tmpfs dev/shm &&
    pivot_root . mnt && cd /root/tenure && umount -l /mnt || exit 1
# The environment of a login, and the proxies through which this host reaches the archives.
set -- ./dev "$@"
for name in http_proxy https_proxy no_proxy; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || set -- "$name=$value" "$@"
done
env -i HOME=/root USER=root LOGNAME=root SHELL=/bin/sh TERM="${TERM:-dumb}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
