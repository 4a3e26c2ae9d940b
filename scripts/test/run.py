#!/usr/bin/env python3
"""Builds and runs the tests for './dev test' and './dev coverage', and ends with the line `N passed, N failed`.

    run.py [--all] | [--repeat N] [--load] [NAME...] | --coverage [SUITE...]

./dev has installed what is needed, checked the options, and set SOURCE_ROOT and BUILD_ROOT. A NAME is a suite or a
test. Exits with 0 if something ran and nothing failed, 1 if something failed, 2 for an unknown name, 3 if the build for
coverage failed, and 128 + N after a signal; then no process is left.
"""
import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys

import configurations
import results
from processes import Interrupted, Processes
from progress import Clock, Progress

SOURCE = os.environ["SOURCE_ROOT"]
ROOT = os.environ["BUILD_ROOT"]
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
NOT_BUILT = 3


class Unknown(Exception):
    """A name that is neither a suite nor a test."""


class Runner:
    def __init__(self, with_load):
        self.clock = Clock()
        self.with_load, self.load = with_load, None
        self.ahead = None  # the builds of later configurations, under way beside the first tests
        self.processes = Processes()
        self.passed = self.failed = 0
        self.ran = False  # whether a build came as far as its tests
        self.report = []  # a line for each configuration, shown at the end
        self.shown = []  # what failed: title and lines

    # ---- building

    def build(self, build, place=""):
        """True if it was built. A failure counts and is shown at the end."""
        started = self.clock.seconds()
        self.clock.say(f"{build.label}: building{place}")
        if self.ahead:
            with contextlib.suppress(PermissionError, ProcessLookupError):  # somebody waits for it now
                os.setpriority(os.PRIO_PGRP, self.ahead.pid, 0)
            self.processes.wait(self.ahead)
            self.ahead = None
        code, lines = self.processes.run(
            builder(build), {**os.environ, "CC": build.compiler},
            on_idle=lambda: self.clock.say(f"{build.label}: still building"))
        took = self.clock.seconds() - started
        if code == 0:
            self.clock.say(f"{build.label}: built in {took} s")
            self.start_load()
            return True
        self.clock.say(f"{build.label}: FAIL: the build failed after {took} s")
        self.note_failure(f"build-{build.label}", "failed", lines)
        return False

    def build_ahead(self, builds):
        """Starts to build these, one after the other, at the lowest priority: the tests of the first configuration wait
        most of the time. build() waits for it, finds little left to do, and shows what failed."""
        words = [shlex.join(["env", f"CC={build.compiler}", *builder(build)]) for build in builds]
        with open(f"{ROOT}/build/ahead.log", "wb") as output:
            self.ahead = self.processes.start(["nice", "-n", "19", "sh", "-c", "; ".join(words)], output)

    def note_failure(self, what, how, lines):
        self.failed += 1
        self.report.append(f"{what}: {how}")
        self.shown.append((f"{what} {how}", lines))

    # ---- running

    def run(self, build, label, names, options):
        """Runs meson with these options, which select the programs with these names; returns what its log says."""
        directory = build.directory(ROOT)
        log = f"{directory}/meson-logs/testlog.json"
        with contextlib.suppress(FileNotFoundError):
            os.remove(log)
        progress = Progress(self.clock, label, names, log, f"{directory}/test-output")
        # Most programs wait most of the time, for leases to expire and for each other: more of them than cores.
        words = ["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs",
                 "--num-processes", str(6 * len(os.sched_getaffinity(0))), *options]
        # New kernels randomize the address space more widely than the thread sanitizer can bear.
        if build.label == "tsan" and subprocess.run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL).returncode == 0:
            words = ["setarch", "-R", *words]
        _, lines = self.processes.run(words, {**os.environ, **SANITIZERS}, progress.on_line, progress.on_idle)
        tests = progress.finish()
        self.ran = True
        if not tests:
            results.show(f"{label}: meson ran no test", lines[-20:])
        return tests, progress

    def run_suites(self, build, after, names=()):
        """One configuration: its suites, or the programs with these names. after: which configurations come later."""
        shutil.rmtree(f"{build.directory(ROOT)}/test-output", ignore_errors=True)
        started = self.clock.seconds()
        selected = names or [name for name, suite in tests_of(build) if build.runs(name, suite)]
        if not selected:
            return
        if names or build.left_out:
            options = selected
        else:
            options = [word for suite in build.suites for word in ("--suite", suite)]
        self.clock.say(f"{build.label}: {len(selected)} test programs to run")
        tests, progress = self.run(build, build.label, selected, options)
        directory = os.path.relpath(build.directory(ROOT))
        good = bad = broken = 0
        for test in tests:
            passed, failed, _ = results.count(test)
            good, bad = good + passed, bad + failed
            if failed:
                broken += 1
                name = name_of(test)
                again = f"./dev test {name}" if build.label == "gcc" else f"meson test -C {directory} {name}"
                self.shown.append((f"{build.label}: {name}", [
                    *results.excerpt(test), f"all of its output: {os.path.relpath(progress.path(name))}",
                    f"to run it again: {again}"]))
        if len(tests) < len(selected) or not tests:
            bad += 1
            missing = sorted(set(selected) - set(progress.tests))
            self.shown.append((f"{build.label}: {len(missing)} programs did not run", missing))
        self.passed, self.failed = self.passed + good, self.failed + bad
        self.report.append(f"{build.label}: {good} passed, {bad} failed in {len(tests)} programs")
        self.clock.say(f"{build.label}: {len(tests)} programs tested in {self.clock.seconds() - started} s, "
                       f"{broken} failed{after}")

    def run_all(self, long):
        self.run_builds(configurations.all_builds(long))

    def run_builds(self, builds):
        for number, build in enumerate(builds, 1):
            later = ", ".join(other.label for other in builds[number:])
            place = f" (configuration {number} of {len(builds)}{f'; then {later}' if later else ''})"
            built = self.build(build, place if len(builds) > 1 else "")
            if built and number == 1 and len(builds) > 1 and not self.with_load:
                self.build_ahead(builds[1:])
            if built and build.suites:
                self.run_suites(build, f"; still to come: {later}" if later else "")

    # ---- some tests, perhaps many times

    def run_named(self, words):
        build = configurations.main_build()
        if self.build(build):
            self.run_suites(build, "", select(build, words))

    def run_repeatedly(self, words, times):
        """Counts runs of programs; the output of the first failure of each is kept."""
        build = configurations.main_build()
        if not self.build(build):
            return
        names = select(build, words or ["unit", "conformance"])
        shutil.rmtree(f"{build.directory(ROOT)}/test-output", ignore_errors=True)
        kept = f"{build.directory(ROOT)}/test-output/first-failures"
        runs, failed, first = dict.fromkeys(names, 0), dict.fromkeys(names, 0), {}
        for number in range(1, times + 1):
            _, progress = self.run(build, f"run {number}/{times}", names, names)
            for name in names:
                test = progress.tests.get(name)
                runs[name] += 1
                if test and results.count(test)[1] == 0:
                    continue
                failed[name] += 1
                if name not in first:
                    first[name] = "it did not run" if not test else os.path.relpath(keep(progress.path(name), kept))
        width = max(map(len, names))
        for name in sorted(names, key=lambda name: -failed[name]):
            more = f"   first failure: {first[name]}" if name in first else ""
            self.report.append(f"{name:{width}}  {failed[name]} of {runs[name]} runs failed{more}")
        self.failed += sum(failed.values())
        self.passed += sum(runs.values()) - sum(failed.values())

    # ---- the load, and the end

    def start_load(self):
        """A parallel build beside the tests, in a directory of its own. It starts after the first build, which may
        remove that directory, and which it would only delay."""
        if not self.with_load or self.load:
            return
        log = f"{ROOT}/build/load.log"
        self.clock.say(f"load: builds run beside the tests, in build/load; log: {os.path.relpath(log)}")
        with open(log, "wb") as output:
            self.load = self.processes.start(["sh", f"{SOURCE}/scripts/test/load.sh", f"{ROOT}/build/load"], output)

    def stop_load(self):
        if not self.load:
            return
        if self.load.exit_code is not None:
            self.failed += 1
            with open(f"{ROOT}/build/load.log", encoding="utf-8", errors="replace") as log:
                self.shown.append(("the load ended early", log.read().splitlines()[-20:]))
        self.processes.stop(self.load)

    def finish(self):
        self.stop_load()
        left = self.processes.stop_all()
        for title, lines in self.shown:
            results.show(title, lines)
        print()
        if left:
            print("left running by the tests, and killed: " + ", ".join(left))
        print("\n".join(self.report))
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 0 if self.passed > 0 and self.failed == 0 else 1


def builder(build):
    return ["sh", f"{SOURCE}/scripts/test/build.sh", build.directory(ROOT), *build.options]


def name_of(test):
    return test["name"].split(" / ")[-1]


def tests_of(build):
    """(name, suite) of each program of a build, those first that meson starts first."""
    with open(f"{build.directory(ROOT)}/meson-info/intro-tests.json", encoding="utf-8") as info:
        tests = sorted(json.load(info), key=lambda test: -test["priority"])
    return [(test["name"], suite.split(":")[-1]) for test in tests for suite in test["suite"][:1]]


def select(build, words):
    """The names of the programs that these words name, in meson's order."""
    listed = tests_of(build)
    suites = sorted({suite for _, suite in listed})
    unknown = [word for word in words if word not in suites and word not in [name for name, _ in listed]]
    if unknown:
        close = sorted(name for name, _ in listed if any(word in name for word in unknown))
        raise Unknown(f"unknown suite or test '{unknown[0]}'; the suites are: {' '.join(suites)}"
                      + (f"; tests with such a name: {' '.join(close)}" if close else
                         "; 'meson test -C build --list' lists the tests"))
    return list(dict.fromkeys(name for name, suite in listed if name in words or suite in words))


def keep(path, directory):
    os.makedirs(directory, exist_ok=True)
    return shutil.copy(path, directory)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def carry_out(runner, options):
    if options.coverage:
        runner.run_builds([configurations.coverage_build(options.names)])
    elif options.repeat is not None:
        runner.run_repeatedly(options.names, options.repeat)
    elif options.names:
        runner.run_named(options.names)
    else:
        runner.run_all(options.all)


def main():
    options = parse()
    runner = Runner(options.load)
    try:
        carry_out(runner, options)
        code = runner.finish()
        return NOT_BUILT if options.coverage and not runner.ran else code
    except Interrupted as interrupted:
        print(f"\ndev: stopped by {interrupted}; ending the tests", file=sys.stderr, flush=True)
        runner.processes.stop_all()
        return interrupted.exit_code
    except Unknown as unknown:
        runner.processes.stop_all()
        print(f"dev: {unknown}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # who read the progress has gone
        runner.processes.stop_all()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


if __name__ == "__main__":
    sys.exit(main())
