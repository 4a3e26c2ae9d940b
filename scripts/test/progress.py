"""Follows a run of 'meson test' and says what each program did as soon as it has ended.

Meson prints a line when a program ends, at once; its testlog.json has the whole output, but some programs later, because
it is buffered. The line is what is shown in time; the log is what counts.
"""
import json
import os
import re
import time

import results

ENDED = re.compile(r"^\s*\d+/(\d+) (?:\S+ / )?(\S+)\s+"
                   r"(OK|FAIL|TIMEOUT|SKIP|ERROR|EXPECTEDFAIL|UNEXPECTEDPASS|INTERRUPT)\s+([\d.]+)s")
SHOWN_WAITING = 6


class Clock:
    """Seconds since the start, in front of each line."""

    def __init__(self):
        self.started = time.monotonic()

    def seconds(self):
        return int(time.monotonic() - self.started)

    def say(self, text):
        print(f"[{self.seconds():4d} s] {text}", flush=True)


class Progress:
    """One run of meson. label is what its lines start with, names the programs that are to run, log the testlog.json, and
    kept the directory for the output of those that fail."""

    def __init__(self, clock, label, names, log, kept):
        self.clock, self.label, self.waiting, self.log, self.kept = clock, label, list(names), log, kept
        self.total = len(self.waiting)
        self.ended = 0
        self.tests = {}  # by name, from the log
        self.told = set()  # names of failures that were shown
        self.position = 0
        self.over = False
        self.current = None  # the file of the failure whose output meson is printing

    def on_line(self, line):
        if line.startswith("Summary of Failures"):  # the same lines again
            self.over, self.current = True, None
        if self.over:
            return
        match = ENDED.match(line)
        if not match:
            self._keep(line)
            return
        total, name, result, seconds = match.groups()
        self.total = max(self.total, int(total))
        self.ended += 1
        if name in self.waiting:
            self.waiting.remove(name)
        self.current = None
        if result == "OK":
            self._tell("ok  ", name, float(seconds))
        else:
            self._fail(name, float(seconds), result)
        self._read_log()

    def on_idle(self):
        self._read_log()
        if self.ended < self.total:
            names = ", ".join(self.waiting[:SHOWN_WAITING]) + (", ..." if len(self.waiting) > SHOWN_WAITING else "")
            self.clock.say(f"{self.label} {self.ended}/{self.total} left: {names}")

    def finish(self):
        """Reads the rest of the log; returns the programs in the order in which they ended."""
        self._read_log()
        return list(self.tests.values())

    def path(self, name):
        return os.path.join(self.kept, re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".txt")

    def _tell(self, word, name, seconds, more=""):
        digits = len(str(self.total))
        self.clock.say(f"{self.label} {self.ended:{digits}d}/{self.total} {word}  {name} ({seconds:.1f} s){more}")

    def _fail(self, name, seconds, why):
        """Meson prints the cases that failed and the errors next: they are kept until the log has everything."""
        self.told.add(name)
        os.makedirs(self.kept, exist_ok=True)
        self.current = self.path(name)
        with open(self.current, "w", encoding="utf-8") as out:
            out.write(f"{name}: {why}\n")
        self._tell("FAIL", name, seconds, f": {why}, output in {os.path.relpath(self.current)}")

    def _keep(self, line):
        if self.current and os.path.exists(self.current):
            with open(self.current, "a", encoding="utf-8", errors="replace") as out:
                out.write(line + "\n")

    def _read_log(self):
        try:
            with open(self.log, "rb") as log:
                log.seek(self.position)
                data = log.read()
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        self.position += whole
        for line in data[:whole].splitlines():
            if line.strip():
                self._take(json.loads(line))

    def _take(self, test):
        name = test["name"].split(" / ")[-1]
        self.tests[name] = test
        _, failed, why = results.count(test)
        if not failed:
            return
        if name not in self.told:  # meson is content with a program that skips cases
            self._fail(name, test["duration"], "; ".join(why) or "skipped cases")
        with open(self.path(name), "w", encoding="utf-8", errors="replace") as out:
            out.write("\n".join([f"{name}: {test['result']}, exit code {test.get('returncode')}", *why, "",
                                 test.get("stdout", ""), "--- standard error", test.get("stderr", ""), ""]))
        if self.current == self.path(name):
            self.current = None
