"""Runs commands so that none of their descendants outlives the run, however it ends.

The run is the reaper of its descendants (Linux, PR_SET_CHILD_SUBREAPER): also a daemon that left its session stays in
this tree, where it is found. SIGINT, SIGTERM and SIGHUP stop everything and raise Interrupted.
"""
import ctypes
import os
import selectors
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
COMMAND_SHOWN = 200  # characters of the command line of a process that had to be killed
PATIENCE_S = 10  # for a command that was asked to stop: meson ends its tests first


class Interrupted(Exception):
    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Command:
    """A command under way: its process, and its exit code once it has ended."""

    def __init__(self, pid):
        self.pid = pid
        self.exit_code = None

    def signal(self, number):
        if self.exit_code is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass


class Processes:
    def __init__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.commands = {}
        self.received = None  # the first signal that asked for the end
        self.count = 0  # of such signals
        self.wakeup, written = os.pipe()
        for end in (self.wakeup, written):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._receive)

    def _receive(self, number, _frame):
        self.received = self.received or number
        self.count += 1

    def start(self, words, output, environment=None):
        """A command in a process group of its own, so that a Ctrl-C reaches it through us alone."""
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env=environment, preexec_fn=os.setpgrp)
        process.returncode = 0  # its end is collected by _reap(), not by the Popen object
        command = self.commands[process.pid] = Command(process.pid)
        return command

    def run(self, words, environment=None, on_line=None, on_idle=None, idle_s=30.0):
        """Runs a command to its end and returns its exit code and its output. on_line is told each line of the output at
        once, on_idle when there was none for a while."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        lines, rest, ended = [], b"", False
        try:
            command = self.start(words, writing, environment)
            os.close(writing)
            with selectors.DefaultSelector() as selector:
                selector.register(reading, selectors.EVENT_READ)
                selector.register(self.wakeup, selectors.EVENT_READ)
                idle_at = time.monotonic() + idle_s
                while command.exit_code is None or not ended:
                    ready = [key.fd for key, _ in selector.select(max(0.0, idle_at - time.monotonic()))]
                    if reading in ready or time.monotonic() >= idle_at:  # children that end are no output
                        if reading not in ready and on_idle:
                            on_idle()
                        idle_at = time.monotonic() + idle_s
                    self._reap()
                    if self.received:
                        raise Interrupted(self.received)
                    if reading in ready or command.exit_code is not None:
                        data = read_all(reading)
                        # A daemon may keep the pipe open: the command's own end is enough.
                        ended = command.exit_code is not None
                        *whole, rest = (rest + data).split(b"\n")
                        for line in whole + ([rest] if ended and rest else []):
                            lines.append(line.decode("utf-8", "replace"))
                            if on_line:
                                on_line(lines[-1])
        finally:
            os.close(reading)
        return command.exit_code, lines

    def wait(self, command):
        """Returns when a command of start() has ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wakeup, selectors.EVENT_READ)
            while command.exit_code is None:
                self._reap()
                if self.received:
                    raise Interrupted(self.received)
                if command.exit_code is None:
                    selector.select()

    def _reap(self):
        read_all(self.wakeup)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.commands:
                self.commands.pop(pid).exit_code = os.waitstatus_to_exitcode(status)

    def stop(self, *commands):
        """Ends commands and waits for them. Another signal meanwhile hurries."""
        for command in commands:
            command.signal(signal.SIGTERM)
        received, deadline = self.count, time.monotonic() + PATIENCE_S
        while (any(command.exit_code is None for command in commands) and time.monotonic() < deadline
               and self.count == received):
            time.sleep(0.02)
            self._reap()
        for command in commands:
            command.signal(signal.SIGKILL)

    def stop_all(self):
        """Ends every command, and then kills every descendant that is left. Returns the command lines of those."""
        self.stop(*self.commands.values())
        killed = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self._reap()
            left = descendants(os.getpid())
            if not left:
                break
            for pid, name in left:
                killed.append(command_line(pid) or name)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        return sorted(set(killed))


def read_all(descriptor):
    data = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except BlockingIOError:
            return data
        if not piece:
            return data
        data += piece


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\0").replace("\0", " ")[:COMMAND_SHOWN]
    except OSError:
        return ""


def descendants(root):
    """(pid, name) of every living process below root."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                before, after = stat.read().rsplit(")", 1)
        except OSError:
            continue
        state, parent = after.split()[:2]
        parents[int(entry)] = int(parent)
        names[int(entry)] = before.split("(", 1)[1] if state != "Z" else None

    def is_below(pid):
        while pid in parents:
            pid = parents[pid]
            if pid == root:
                return True
        return False

    return [(pid, names[pid]) for pid in parents if names[pid] is not None and is_below(pid)]
