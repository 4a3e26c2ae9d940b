#!/usr/bin/python3
"""worker.py: one member of a fleet that shares targets, as worker.c, and in one fleet with it.

    worker.py STORE NAME TTL_SECONDS TARGET...
    worker.py sqlite:/tmp/jobs.db alice 3 a b c d e f

Start several with the same targets, and kill one: the others take over what it held. SIGTERM and SIGINT hand everything
over and end it.
"""

import signal
import sys

from tenure import Context, Lost, Member, TenureError

STEP_SECONDS = 0.2
stopping = False


def on_signal(number, frame):
    global stopping
    stopping = True


def say(name, text):
    print(f"{name}: {text}", flush=True)


def work_on(member, name, target):
    """One step. Inside the block the target is not handed over, so the step must be short against the TTL. What it sends
    carries the token: a receiver can then refuse what a paused process sends too late."""
    try:
        with member.work(target) as token:
            say(name, f"worked on {target} under token {token}")
    except Lost:
        pass  # it was handed over since held() listed it, or the lease is uncertain: another member has it, or will


def main(store, name, ttl, targets):
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    with Context(store, name=name, ttl=ttl) as context, Member(context, targets) as member:
        say(name, f"started as {context.instance_id}")
        while not stopping:
            for target in member.held():
                work_on(member, name, target)
            event = member.next_event(STEP_SECONDS)  # the wait for an event sets the pace
            while event:
                say(name, f"{event.name} {event.target or event.instance}")
                event = member.next_event()
    say(name, "stopped")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: worker.py STORE NAME TTL_SECONDS TARGET...")
    try:
        main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])
    except TenureError as error:
        sys.exit(f"{sys.argv[2]}: {error}")
