#!/usr/bin/env python3
"""docs/FAULTS.md names a test for every fault: each file and each case that it names is there. Prints TAP."""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROWS = 50
PART = re.compile(r'`(tests/[^`]+)`|"([^"]+)"')


def problems_of(row):
    """A path in backquotes, then its cases in quotes."""
    text, cases = None, 0
    for path, case in PART.findall(row):
        if path:
            if text is not None and not cases:
                yield "a file without a case"
            if not os.path.exists(os.path.join(ROOT, path)):
                yield f"there is no {path}"
                text, cases = "", 1
                continue
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text, cases = file.read(), 0
            name = path
        elif text is None:
            yield f"no file before '{case}'"
        else:
            cases += 1
            if text and case not in text:
                yield f"{name} has no '{case}'"
    if not cases:
        yield "it names no test"


def main():
    with open(os.path.join(ROOT, "docs", "FAULTS.md"), encoding="utf-8") as file:
        rows = dict(re.findall(r"^\| (\d+) \|.*\|.*\| (.*) \|$", file.read(), re.MULTILINE))
    failed = 0
    for number in range(1, ROWS + 1):
        problems = list(problems_of(rows[str(number)])) if str(number) in rows else ["there is no such row"]
        failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {number} - fault {number} has its tests")
        for problem in problems:
            print(f"# {problem}")
    print(f"1..{ROWS}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
