#!/usr/bin/env python3
"""Runs three agents and does harm to them, from a seed, for some time. Says what it did; judges nothing: that is for
fleet_check.py, which reads only what the pollers wrote. Exit code 1 when fewer faults were done than wanted.

Faults: kill -9 of a worker, of a warden, of both at once (a host's death), of all of all agents; SIGSTOP of a worker or
a warden for up to two TTLs, then SIGCONT; SIGTERM, and a restart. A worker whose warden is stopped is left in peace:
without its warden nobody can end what it has started (GUARANTEES says so). A host's death leaves at least one other
agent that has been there for a while, unless it is an outage, which is marked in the log.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import time


class Agent:
    def __init__(self, harness, name):
        self.harness, self.name, self.process, self.generation = harness, name, None, 0
        self.stopped = None  # a process id, and when to continue it
        self.back_at = 0.0   # when to start it again
        self.well_since = 0.0

    def start(self, now):
        options = self.harness.options
        self.generation += 1
        with open(f"{options.directory}/{self.name}.err", "ab") as log:
            self.process = subprocess.Popen(
                [options.tenure, "agent", "--name", self.name, "--targets", "store", "--ttl", f"{options.ttl}ms",
                 "--renew", f"{options.ttl // 4}ms", "--settle", "300ms", "--every", "200ms", "--timeout", "20s",
                 "--log-format", "json", "--publish", f"file:{options.directory}/{self.name}.messages",
                 "--poll", f"exec:exec {options.poller} {options.directory}/polls poll $(( TENURE_TOKEN % 7 * 40 + 40 ))"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        with open(f"{options.directory}/pids", "a", encoding="ascii") as pids:
            pids.write(f"{self.process.pid}\n")
        self.back_at = 0.0
        self.well_since = now

    def worker(self):
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
                pids = children.read().split()
            return int(pids[-1]) if pids else None
        except OSError:
            return None

    def runs(self):
        return self.process is not None and self.process.poll() is None


class Harness:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.agents = [Agent(self, name) for name in "abc"]
        self.done = {}
        self.outage = False

    def mark(self, name):
        subprocess.run([self.options.poller, f"{self.options.directory}/polls", "mark", name], check=True)

    def signal(self, pid, number):
        """False: it was gone already."""
        try:
            os.kill(pid, number)
            return True
        except ProcessLookupError:
            return False

    def count(self, what, name):
        self.mark(f"fault-{what.replace(' ', '-')}-{name}")
        self.done[what] = self.done.get(what, 0) + 1

    def well(self, now, but=None):
        """Agents that nothing was done to for long enough to have joined."""
        return [agent for agent in self.agents
                if agent is not but and agent.runs() and not agent.stopped and now - agent.well_since > 1.5]

    def dies(self, agent, now, after=None):
        agent.back_at = now + (self.random.uniform(0.05, 2.0) if after is None else after)
        agent.stopped = None

    def harm(self, now):
        ttl = self.options.ttl / 1000
        candidates = [agent for agent in self.agents if agent.runs() and not agent.stopped]
        if not candidates or self.outage:
            return
        agent = self.random.choice(candidates)
        what = self.random.choices(
            ["worker", "warden", "host", "stop worker", "stop warden", "term", "all"], [5, 3, 4, 4, 2, 2, 0.4])[0]
        if what == "all":
            if any(other.stopped for other in self.agents):
                return
            self.mark("outage-begin")
            self.outage = True
            for other in self.agents:
                if other.runs():
                    worker = other.worker()
                    self.signal(other.process.pid, signal.SIGKILL)
                    if worker:
                        self.signal(worker, signal.SIGKILL)
                self.dies(other, now, after=self.random.uniform(0.05, 0.5))
            self.count(what, "abc")
            return
        if not self.well(now, but=agent):
            return  # somebody has to be left who can take over
        worker = agent.worker()
        if worker is None:
            return
        if what == "worker":
            done = self.signal(worker, signal.SIGKILL)
            agent.well_since = now
        elif what == "warden":
            done = self.signal(agent.process.pid, signal.SIGKILL)
            self.dies(agent, now)
        elif what == "host":
            done = self.signal(agent.process.pid, signal.SIGKILL)
            self.signal(worker, signal.SIGKILL)
            self.dies(agent, now)
        elif what == "term":
            done = self.signal(agent.process.pid, signal.SIGTERM)
            self.dies(agent, now, after=self.random.uniform(1.0, 2.0))
        else:
            pid = worker if what == "stop worker" else agent.process.pid
            done = self.signal(pid, signal.SIGSTOP)
            agent.stopped = (pid, now + self.random.uniform(0.1, 2 * ttl))
        if done:
            self.count(what, agent.name)

    def tend(self, now):
        for agent in self.agents:
            if agent.stopped and now >= agent.stopped[1]:
                self.signal(agent.stopped[0], signal.SIGCONT)
                agent.stopped = None
                agent.well_since = now
            if agent.back_at and now >= agent.back_at and not agent.runs():
                agent.start(now)
        # After the death of all, the old leases run for a TTL: only then can everything be polled.
        if self.outage and all(agent.runs() and now - agent.well_since > self.options.ttl / 1000 for agent in self.agents):
            self.mark("outage-end")
            self.outage = False

    def run(self):
        options = self.options
        for agent in self.agents:
            agent.start(time.monotonic())
        time.sleep(2.5)
        self.mark("begin")
        end = time.monotonic() + options.seconds
        next_harm = time.monotonic()
        while time.monotonic() < end:
            now = time.monotonic()
            self.tend(now)
            if now >= next_harm:
                self.harm(now)
                next_harm = now + self.random.uniform(0.2, 1.4)
            time.sleep(0.02)
        # What was begun is brought to its end, and then the fleet must be whole again.
        while any(agent.stopped or not agent.runs() for agent in self.agents) or self.outage:
            self.tend(time.monotonic())
            time.sleep(0.02)
        self.mark("calm")
        time.sleep(2 * options.ttl / 1000 + 1)
        self.mark("end")
        codes = []
        for agent in self.agents:
            self.signal(agent.process.pid, signal.SIGTERM)
        for agent in self.agents:
            codes.append(agent.process.wait(timeout=30))
        faults = sum(self.done.values())
        print(f"seed {options.seed}: {faults} faults: " + ", ".join(f"{n} {what}" for what, n in sorted(self.done.items())))
        if any(codes):
            print(f"the agents ended with {codes} instead of 0")
            return 1
        if faults < options.faults:
            print(f"only {faults} faults, {options.faults} wanted: this run proves too little")
            return 1
        return 0


def main():
    parser = argparse.ArgumentParser()
    for name in ("tenure", "poller", "directory"):
        parser.add_argument("--" + name, required=True)
    for name in ("ttl", "seconds", "seed", "faults"):
        parser.add_argument("--" + name, type=int, required=True)
    return Harness(parser.parse_args()).run()


sys.exit(main())
