#!/usr/bin/env python3
"""A semaphore under kills: more lockers than slots come and go, and are killed in all the ways that there are.

  semaphore.py TENURE POLLER LOG COUNT SECONDS [SEED]

Each locker runs fleet_poller under `tenure lock sem --count COUNT`, which writes to the log while it runs, as the target
sem/SLOT. tests/lib/fleet_check.py judges the log: no slot twice at a time, and tokens that rise. Here it is seen to that
enough has happened, and that every slot has been used, and no other.
"""
import os
import random
import signal
import subprocess
import sys
import time

TTL_MS = 2000
LOCKERS = 3  # for each slot


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Locker:
    def __init__(self, tenure, poller, log, count, rest):
        command = 'TENURE_ROLE=$TENURE_ROLE/$TENURE_SLOT exec "$0" "$@"'
        lasts_ms = rest.randrange(50, 2 * TTL_MS)
        self.process = subprocess.Popen(
            [tenure, "lock", "sem", "--count", str(count), "--ttl", f"{TTL_MS}ms", "--renew", "400ms", "--log-level",
             "error", "--", "sh", "-c", command, poller, log, "poll", str(lasts_ms)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.stopped_until = None

    def harm(self, rest, now):
        """One of: the warden dies, the worker dies, both do (as with their host), both are stopped, it is asked to end."""
        warden = self.process.pid
        workers = children(warden)
        way = rest.choice(["warden", "worker", "both", "stop", "term", "worker"])
        if way == "stop":
            self.stopped_until = now + rest.uniform(0.5, 2.5) * TTL_MS / 1000
            for pid in [warden, *workers]:
                send(pid, signal.SIGSTOP)
        elif way == "term":
            send(warden, signal.SIGTERM)
        else:
            for pid in ([warden] if way != "worker" else []) + (workers if way != "warden" else []):
                send(pid, signal.SIGKILL)
        return way

    def wake(self):
        for pid in [self.process.pid, *children(self.process.pid)]:
            send(pid, signal.SIGCONT)
        self.stopped_until = None


def main():
    tenure, poller, log, count, seconds = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])
    seed = int(sys.argv[6]) if len(sys.argv) > 6 else int.from_bytes(os.urandom(4), "big")
    rest, harms, done = random.Random(seed), {}, 0
    lockers, end = [], time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        lockers = [locker for locker in lockers if locker.process.poll() is None]
        while len(lockers) < LOCKERS * count:
            lockers.append(Locker(tenure, poller, log, count, rest))
            done += 1
        for locker in lockers:
            if locker.stopped_until and now >= locker.stopped_until:
                locker.wake()
        if rest.random() < 0.3:
            way = rest.choice(lockers).harm(rest, now)
            harms[way] = harms.get(way, 0) + 1
        time.sleep(rest.uniform(0.02, 0.2))
    for locker in lockers:
        locker.wake()
        send(locker.process.pid, signal.SIGTERM)
    for locker in lockers:
        locker.process.wait()
    with open(log, encoding="ascii") as file:
        slots = {line.split()[3] for line in file if line.split()[2] == "start"}
    print(f"seed {seed}: {done} lockers, harms {harms}, slots {sorted(slots)}")
    wanted = {f"sem/{i}" for i in range(count)}
    return 0 if slots == wanted and sum(harms.values()) >= seconds / 2 else 1


sys.exit(main())
