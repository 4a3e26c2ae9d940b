"""Processes of a run: starting them so that none outlives it, and looking at what still runs. Used by all of tests/faults."""
import contextlib
import glob
import os
import signal
import socket
import subprocess
import time

TIGHT_S = 0.02
PATIENCE_S = 90  # for what takes a second on a quiet machine: it is waited for no longer than it takes
USAGE = 2     # the exit code of a program that was not called as it should be
NO_STORE = 3  # the exit code of a program that found its store out of reach


class Trouble(Exception):
    """The run itself went wrong: it proves nothing."""


def boot_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def wait_until(seconds, what, condition):
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= end:
            raise Trouble(f"this did not come true in {seconds} s: {what}")
        time.sleep(TIGHT_S)


def start(command, log, environment=None, out=subprocess.DEVNULL, user=None, group=None):
    """A process that ends with this one, whatever becomes of it; what it says goes to the file `log`. user: a number; group: 0
    makes a process group of its own."""
    if user:  # a library that is loaded first must not meet two users in one process
        command, environment = ["env", *(f"{name}={value}" for name, value in (environment or {}).items()), *command], None
    another = [f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    with open(log, "ab") as errors:
        return subprocess.Popen(["setpriv", *another, "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL,
                                stdout=errors if out == "log" else out, stderr=errors, process_group=group,
                                env=None if environment is None else {**os.environ, **environment})


def send(pid, number):
    """False: it was gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def runs(pid):
    """True: at least one of its threads is neither stopped nor gone."""
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stat:
            if stat.read().rpartition(")")[2].split()[0] not in "TtZX":
                return True
    return False


def takes(pid, number):
    """Whether a process has blocked a signal, to take it when it comes to it: a program that has not begun dies of it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("SigBlk:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def freeze(pid):
    """Stops a process, and returns when it stands still: a signal only asks. False: it was gone already."""
    if not send(pid, signal.SIGSTOP):
        return False
    wait_until(PATIENCE_S, f"process {pid} has stopped", lambda: not runs(pid))
    return True


def end(process, number=signal.SIGKILL):
    if process is not None and process.poll() is None:
        send(process.pid, signal.SIGCONT)
        send(process.pid, number)
    if process is not None:
        process.wait(timeout=PATIENCE_S)


def children_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]
    return []


def running_with(argument):
    """Processes, zombies aside, that have this among their arguments."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path, "rb") as cmdline:
            if os.fsencode(argument) in cmdline.read().split(b"\0"):
                found.append(int(path.split("/")[2]))
    return found


class Port:
    """A port of 127.0.0.1 that nobody else is given as long as this lives, also while its server is down: it is bound, but not
    listened at. A server can bind it too, because both allow the address to be reused."""
    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]

    def close(self):
        self.socket.close()


def ask_program(command, timeout=PATIENCE_S):
    """What a program that is run once prints. Trouble: it failed, or took too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise Trouble(f"{' '.join(command)}: no end after {timeout} s") from error
    if done.returncode != 0:
        raise Trouble(f"{' '.join(command)}: exit code {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}")
    return done.stdout


def try_until(seconds, what, action):
    """What the action returns when it has no trouble."""
    result = []

    def succeeds():
        with contextlib.suppress(Trouble):
            result.append(action())
        return bool(result)
    wait_until(seconds, what, succeeds)
    return result[0]
