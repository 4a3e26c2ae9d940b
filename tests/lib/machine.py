#!/usr/bin/env python3
"""Starts a test in shell in the same state, whoever started it: tap.sh begins with it. machine.h does the same for tests
in C.

  machine.py COMMAND...

A shell cannot do this by itself: signals that were ignored when it started stay ignored in it and in all that it starts.
"""
import fnmatch
import os
import re
import resource
import signal
import sys

FILES = 4096

# machine.h has the same list.
FOREIGN = ("TENURE_*", "XDG_STATE_HOME", "PG*", "REDIS*", "ETCD*", "NOTIFY_SOCKET", "LISTEN_*", "WATCHDOG_*", "http_proxy",
           "ftp_proxy", "https_proxy", "all_proxy", "no_proxy", "CURL_*", "SSL_CERT_*", "OPENSSL_*", "MALLOC_CHECK_",
           "MALLOC_ARENA_*", "MALLOC_TOP*", "MALLOC_TRIM*", "MALLOC_MMAP_*", "LANG*", "LC_*", "TZ*", "PYTHON*", "NODE_*",
           "CDPATH", "ENV", "BASH_ENV", "POSIXLY_CORRECT", "NO_COLOR", "CLICOLOR*", "COLUMNS", "LINES", "RES_OPTIONS",
           "LOCALDOMAIN", "HOSTALIASES")
OURS = ("TENURE_SOURCE", "TENURE_BUILD", "TENURE_EXAMPLES", "TENURE_SANITIZED", "TENURE_E2E_OWN_MOUNTS")


def reset_signals():
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):  # not ours to set
                pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def reset_limits():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FILES:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
            most = FILES
        except (OSError, ValueError):  # only root may
            pass
    files = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.umask(0o022)


def open_descriptors():
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null, number)
    os.dup2(null, 0)
    if null > 2:
        os.close(null)


def clear_environment():
    for name in list(os.environ):
        if name not in OURS and any(fnmatch.fnmatchcase(name.lower(), each.lower()) for each in FOREIGN):
            del os.environ[name]
    os.environ["LC_ALL"] = "C"
    os.environ["TZ"] = "UTC0"
    # Sockets are made there, whose paths are at most 107 bytes long; and its name is written into URLs and settings.
    place = os.environ.get("TMPDIR")
    if place is not None and not (re.fullmatch(r"/[A-Za-z0-9/._-]{0,40}", place) and os.access(place, os.W_OK | os.X_OK)):
        del os.environ["TMPDIR"]


def has_terminals():
    try:
        for end in os.openpty():
            os.close(end)
        return True
    except OSError:
        return False


def has_shared_memory():
    return os.access("/dev/shm", os.W_OK | os.X_OK)


# A mount namespace of our own: what is mounted there goes away with the test.
MOUNTS = """
mount --make-rprivate / || exit
if [ -n "$1" ]; then
    mkdir -p /dev/pts && mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts &&
        { [ -e /dev/ptmx ] || ln -s pts/ptmx /dev/ptmx; }
fi
if [ -n "$2" ]; then mkdir -p /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm; fi
shift 2
exec "$@"
"""


def with_devices(command):
    """What a bare machine may lack, and only root can add: terminals (/dev/pts) and shared memory (/dev/shm)."""
    terminals, memory = not has_terminals(), not has_shared_memory()
    if os.geteuid() != 0 or not (terminals or memory):
        return command
    return ["unshare", "--mount", "sh", "-c", MOUNTS, "machine", terminals and "yes" or "", memory and "yes" or "", *command]


def main():
    reset_signals()
    reset_limits()
    open_descriptors()
    clear_environment()
    os.environ["TAP_STARTED"] = "yes"
    command = with_devices(sys.argv[1:])
    os.execvp(command[0], command)


main()
