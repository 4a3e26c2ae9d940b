#!/usr/bin/env python3
"""Counts the test cases of several runs of meson, shows what failed, and ends with `N passed, N failed`.

    summary.py [--failed LABEL=LOG]... [LABEL=TESTLOG.json]...

LABEL=TESTLOG.json is a run of 'meson test'; --failed is a step that failed before there were tests, such as a build.
Counted are the `ok` and `not ok` lines of the programs. A program that crashed, timed out, skipped something or ran
fewer cases than its plan says is at least one failure. Called by './dev test'.
"""
import json
import re
import sys

CASE = re.compile(r"^\s*(not )?ok\b(.*)$")
PLAN = re.compile(r"^\s*1\.\.(\d+)")
SKIP = re.compile(r"#\s*(skip|todo)", re.IGNORECASE)
SHOWN_LINES = 80


def count(test):
    """Passed and failed cases of one program, and what to say about it."""
    lines = test.get("stdout", "").splitlines()
    passed = failed = planned = 0
    plans = 0
    for line in lines:
        plan = PLAN.match(line)
        case = CASE.match(line)
        if plan:
            plans += 1
            planned += int(plan.group(1))
        elif case and (case.group(1) or SKIP.search(case.group(2))):
            failed += 1
        elif case:
            passed += 1
    why = []
    if plans == 0:
        why.append("no plan was printed")
    elif passed + failed != planned:
        why.append(f"{planned} cases were planned, {passed + failed} were run")
    if planned == 0:
        why.append("no case was run")
    if test["result"] != "OK" and not failed:
        why.append(f"result {test['result']}, exit code {test.get('returncode')}")
    if why and not failed:
        failed = 1
    return passed, failed, why


def failures(lines):
    """The lines of a TAP output that belong to failures."""
    shown, within = [], False
    for line in lines:
        case = CASE.match(line)
        if case:
            within = bool(case.group(1) or SKIP.search(case.group(2)))
        if within:
            shown.append(line)
    return shown


def show(title, lines):
    print(f"\n--- {title}")
    if len(lines) > SHOWN_LINES:
        print(f"    ({len(lines) - SHOWN_LINES} lines before)")
    for line in lines[-SHOWN_LINES:]:
        print("    " + line)


def read_run(label, path):
    passed = failed = programs = 0
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            tests = [json.loads(line) for line in log if line.strip()]
    except (OSError, ValueError) as error:
        show(f"{label}: its results cannot be read", [str(error)])
        return 0, 1, 0
    for test in tests:
        good, bad, why = count(test)
        passed, failed, programs = passed + good, failed + bad, programs + 1
        if bad:
            out = test.get("stdout", "").splitlines()
            show(f"{label}: {test['name']}", why + (failures(out) or out) + test.get("stderr", "").splitlines())
    return passed, failed, programs


def main(arguments):
    passed = failed = 0
    report = []
    while arguments:
        argument = arguments.pop(0)
        if argument == "--failed":
            label, path = arguments.pop(0).split("=", 1)
            with open(path, encoding="utf-8", errors="replace") as log:
                show(f"{label} failed", log.read().splitlines())
            failed += 1
            report.append(f"{label}: failed")
            continue
        label, path = argument.split("=", 1)
        good, bad, programs = read_run(label, path)
        passed, failed = passed + good, failed + bad
        report.append(f"{label}: {good} passed, {bad} failed in {programs} programs")
    print()
    print("\n".join(report))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
