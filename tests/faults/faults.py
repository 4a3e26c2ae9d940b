#!/usr/bin/env python3
"""A fleet of real agents and recorders on real servers, with faults from a seed, judged by what they wrote. Prints TAP.

    faults.py --tenure PROGRAM --poller PROGRAM --ledger PROGRAM [--mutant PROGRAM] [--store NAME]... [--seconds N | --minutes N]
              [--seed N] [--fleet NAME]... [--report DIRECTORY] [--planted [NAME]...]

Each store (all of them unless told) gets a run of that length, and a report in DIRECTORY/STORE. A fleet other than the plain one
(fleet.py has them) writes it to DIRECTORY/STORE-FLEET. With --planted it is bugs that
are run (all of them, those named, or the group "quick" or "rest"), and each must be found. What is checked, and what not, is in polls.py, ledger.py and linear.py; docs/FAULTS.md tells
which fault is tested where. With TENURE_FAULTS_KEEP=1 in the environment the files of a run that fails are kept.
"""
import argparse
import os
import signal
import sys
import time
import traceback

import planted
from fleet import FLEETS
from processes import Trouble
from run import STORES, Programs, Run, keeps


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def tell(self, sentence, problems, notes=()):
        self.count += 1
        self.failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.count} - {sentence}")
        for line in [*notes, *problems[:40]]:
            print(f"# {line}")
        sys.stdout.flush()

    def finish(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def run_store(tap, name, fleet, programs, options):
    run, problems, notes = Run(name, programs, options.seed, options.seconds, fleet), [], []
    page = name if fleet == "plain" else f"{name}-{fleet}"
    try:
        run.prepare()
        run.carry_out()
        problems = run.problems()
        notes = [run.summary()]
        if options.report:
            run.report(f"{options.report}/{page}")
            notes.append(f"report: {options.report}/{page}/report.md")
    except Exception as error:  # whatever it is: the servers are to be ended, and the next store has its turn
        problems = [f"the run came to nothing: {error}", *(run.engine.problems if run.engine else []),
                    *("" if isinstance(error, Trouble) else traceback.format_exc()).splitlines()]
    finally:
        kept = run.end(keep=bool(problems) and keeps())
    if kept:
        notes.append(f"its files are in {kept}")
    tap.tell(f"{options.seconds:g} seconds of faults on {page} leave one owner, no lower token, no gap, and histories of one "
             f"lease each (seed {options.seed})", problems, notes)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tenure", "poller", "ledger"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--mutant")
    parser.add_argument("--store", action="append", choices=sorted(STORES))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fleet", action="append", choices=sorted(FLEETS))
    parser.add_argument("--report")
    parser.add_argument("--planted", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.minutes:
        options.seconds = options.minutes * 60
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for variable in [name for name in os.environ if name.startswith("TENURE_") and name != "TENURE_FAULTS_KEEP"]:
        del os.environ[variable]
    programs = Programs(options.tenure, options.poller, options.ledger, options.mutant)
    tap = Tap()
    if options.planted is not None:
        planted.run_all(tap, programs, options.planted, options.report)
    else:
        for name in options.store or STORES:
            for fleet in options.fleet or ["plain"]:
                run_store(tap, name, fleet, programs, options)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
