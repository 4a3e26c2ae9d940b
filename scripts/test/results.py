"""What a test program did, from a line of meson's testlog.json: how many cases passed and failed, and what to show.

Counted are the `ok` and `not ok` lines of its output (TAP). A program that crashed, timed out, skipped something or ran
fewer cases than its plan says is at least one failure.
"""
import re

CASE = re.compile(r"^\s*(not )?ok\b(.*)$")
PLAN = re.compile(r"^\s*1\.\.(\d+)")
SKIP = re.compile(r"#\s*(skip|todo)", re.IGNORECASE)
SHOWN_LINES = 80


def count(test):
    """Passed and failed cases of one program, and why it failed if no case says so."""
    passed = failed = planned = plans = 0
    for line in test.get("stdout", "").splitlines():
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
        why.append("it printed no plan")
    elif passed + failed != planned:
        why.append(f"{planned} cases were planned, {passed + failed} were run")
    if planned == 0:
        why.append("it ran no case")
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


def excerpt(test):
    """What to show of a program that failed."""
    _, _, why = count(test)
    out = test.get("stdout", "").splitlines()
    return why + (failures(out) or out) + test.get("stderr", "").splitlines()


def show(title, lines):
    print(f"\n--- {title}")
    if len(lines) > SHOWN_LINES:
        print(f"    ({len(lines) - SHOWN_LINES} lines before)")
    for line in lines[-SHOWN_LINES:]:
        print("    " + line)
