#!/usr/bin/env python3
"""Lets a fleet run on a private Redis for hours while agents join, leave and are killed and targets come and go, and then
says whether the agents that were there all the time have grown. ./dev soak starts it.

  soak.py run --tenure T --poller P --hours H [--seed S] [--preload LIBRARY]
        the soak itself. LIBRARY is loaded into the long-lived agents (tests/lib/soak_leak.c, a leak on purpose).
  soak.py judge FILE
        the slope test alone: a line is SECONDS SERIES VALUE

The slope test: what was measured in the first quarter (at least 20 s) is warm-up and left out. Of each five seconds the least
counts: polls that are under way have descriptors, and on a busy machine more of them are. A line is fitted through these by
least squares; what it rises from its begin to its end, less three standard errors, is the growth. More than
2 descriptors, or more memory than 5 % of the mean and 256 KiB, is a leak. In a longer run the same bound is a slower leak.

That no target was polled twice at a time is judged by fleet_check.py, which reads only what the pollers wrote. The log is
cut into pieces, so that hours fit on a disk; polls near a cut are judged in both pieces.
"""
import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

TTL_MS = 2000
SAMPLE_S = 0.25
BUCKET_S = 5.0
WARM_UP = 0.25
WARM_UP_LEAST_S = 20.0
BUCKETS_LEAST = 12
DESCRIPTORS_MOST = 2.0
MEMORY_MOST_PART = 0.05
MEMORY_MOST_KIB = 256.0
ERRORS = 3.0
PIECE_S = 300.0
CUT_S = 10.0  # longer than any poll and any takeover
LONG_LIVED = 3
PASSING_MOST = 4
STEADY = 12    # targets that stay
# How those that pass may end: in order, killed, or before they had begun, on a machine so busy that a signal comes before they
# wait for one, or that the store does not answer their first question in time.
ENDS = (0, -signal.SIGKILL, -signal.SIGTERM, 3)
CHANGING = 20  # names of those that come and go: their counters stay in the store, so they are not new each time


# ---- the slope test

def growth_of(samples):
    """What the fitted line rises, and its standard error."""
    n = len(samples)
    mean_t = sum(t for t, _ in samples) / n
    mean_v = sum(v for _, v in samples) / n
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    slope = sum((t - mean_t) * (v - mean_v) for t, v in samples) / spread
    rest = sum((v - mean_v - slope * (t - mean_t)) ** 2 for t, v in samples)
    error = math.sqrt(rest / (n - 2) / spread)
    window = samples[-1][0] - samples[0][0]
    return slope * window, error * window, mean_v


def least_of_buckets(samples):
    """The least of each BUCKET_S, at the middle of it."""
    least = {}
    for t, v in samples:
        bucket = int(t // BUCKET_S)
        least[bucket] = min(v, least.get(bucket, v))
    return [((bucket + 0.5) * BUCKET_S, v) for bucket, v in sorted(least.items())]


def judge(series):
    """Prints a line for each, and returns how many leak or are too short."""
    wrong = 0
    for name in sorted(series):
        samples = sorted(series[name])
        begin, end = samples[0][0], samples[-1][0]
        warm = begin + max(WARM_UP_LEAST_S, WARM_UP * (end - begin))
        steady = least_of_buckets([each for each in samples if each[0] >= warm])
        if len(steady) < BUCKETS_LEAST:
            print(f"{name}: {len(steady) * BUCKET_S:.0f} s after the warm-up are too few: this run proves too little")
            wrong += 1
            continue
        growth, error, mean = growth_of(steady)
        most = DESCRIPTORS_MOST if "descriptors" in name else MEMORY_MOST_KIB + MEMORY_MOST_PART * mean
        leaks = growth - ERRORS * error > most
        wrong += leaks
        print(f"{name}: mean {mean:.0f}, growth {growth:+.1f} (standard error {error:.1f}) in "
              f"{steady[-1][0] - steady[0][0]:.0f} s, bound {most:.0f}{': IT LEAKS' if leaks else ''}")
    return wrong


# ---- the log of the pollers, in pieces

class Log:
    def __init__(self, directory, poller):
        self.directory, self.poller = directory, poller
        self.number, self.cut_at, self.kept = 0, time.monotonic(), []
        self.polls = self.hands = self.wrong = 0
        self.name_piece()

    def path(self, number):
        return f"{self.directory}/polls-{number}"

    def name_piece(self):
        with open(f"{self.directory}/piece.new", "w", encoding="ascii") as piece:
            piece.write(self.path(self.number))
        os.replace(f"{self.directory}/piece.new", f"{self.directory}/piece")

    def cut(self):
        """New polls write into another piece; the last one is judged when all of its polls have ended."""
        self.number += 1
        self.cut_at = time.monotonic()
        self.name_piece()

    def judge_last(self):
        path = self.path(self.number - 1)
        with open(path, encoding="ascii") as piece:
            lines = self.kept + piece.readlines()
        with open(path, "w", encoding="ascii") as piece:
            piece.writelines(lines)
        ran = subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fleet_check.py"),
                              path, "check"], capture_output=True, text=True, check=False)
        words = ran.stdout.split()
        if ran.returncode:
            print(ran.stdout + ran.stderr, flush=True)
            self.wrong += 1
        else:
            self.polls += int(words[0])
            self.hands += int(ran.stdout.split(" cut short, ")[1].split()[0])
        self.keep(lines)
        if not ran.returncode:
            os.unlink(path)

    def keep(self, lines):
        """The polls that began shortly before the cut, whole."""
        last = max((int(line.split(" ", 1)[0]) for line in lines), default=0)
        late = {tuple(line.split()[i] for i in (1, 3)) for line in lines
                if line.split()[2] == "start" and int(line.split()[0]) > last - CUT_S * 1e6}
        self.kept = [line for line in lines if tuple(line.split()[i] for i in (1, 3)) in late]


# ---- the fleet

class Agent:
    def __init__(self, soak, name, preload=None):
        self.name = name
        environment = dict(os.environ, TENURE_STORE=soak.store)
        if preload:
            environment["LD_PRELOAD"] = preload
        with open(f"{soak.directory}/{name}.err", "ab") as log:
            self.process = subprocess.Popen(
                [soak.options.tenure, "agent", "--name", name, "--targets", "store", "--ttl", f"{TTL_MS}ms", "--renew",
                 f"{TTL_MS // 4}ms", "--settle", "300ms", "--every", "500ms", "--log-level", "error", "--poll",
                 f"exec:exec {soak.options.poller} \"$(cat {soak.directory}/piece)\" poll 60"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment)
        self.first_worker = None

    def worker(self):
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
                pids = children.read().split()
        except OSError:
            return None
        return int(pids[-1]) if pids else None

    def runs(self):
        return self.process.poll() is None

    def end(self, sign):
        worker = self.worker()
        if self.runs():
            self.process.send_signal(sign)
        if sign == signal.SIGKILL and worker:  # the whole host
            try:
                os.kill(worker, sign)
            except ProcessLookupError:
                pass


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return float(line.split()[1])
    raise ProcessLookupError(pid)


class Soak:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.random = random.Random(options.seed)
        self.redis, self.store = None, None
        self.series, self.problems = {}, []
        self.passing, self.leaving, self.present = [], [], set()
        self.done = {"joined": 0, "left": 0, "killed": 0, "added": 0, "removed": 0}
        self.names = 0
        self.log = Log(directory, options.poller)
        self.next = {}

    def start_redis(self):
        for _ in range(10):
            port = random.randrange(10000, 32000)
            # pylint: disable=consider-using-with
            self.redis = subprocess.Popen(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "",
                                           "--dir", self.directory], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            if self.redis.poll() is None:
                self.port, self.store = port, f"redis://127.0.0.1:{port}"
                return
        raise SystemExit("no redis-server could be started")

    def tenure(self, *words, store=None):
        subprocess.run([self.options.tenure, *words, "--log-level", "error"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=dict(os.environ, TENURE_STORE=store or self.store))

    # -- what changes

    def change_agents(self):
        if len(self.passing) < PASSING_MOST and (not self.passing or self.random.random() < 0.5):
            self.names += 1
            self.passing.append(Agent(self, f"passing-{self.names}"))
            self.done["joined"] += 1
            return
        agent = self.passing.pop(self.random.randrange(len(self.passing)))
        killed = self.random.random() < 0.5
        agent.end(signal.SIGKILL if killed else signal.SIGTERM)
        self.leaving.append(agent)
        self.done["killed" if killed else "left"] += 1

    def change_targets(self):
        name = f"changing-{self.random.randrange(CHANGING)}"
        if name in self.present:
            self.tenure("target", "rm", name)
            self.present.discard(name)
            self.done["removed"] += 1
        else:
            self.tenure("target", "add", name)
            self.present.add(name)
            self.done["added"] += 1

    def complain(self, agent, code):
        with open(f"{self.directory}/{agent.name}.err", encoding="utf-8", errors="replace") as said:
            self.problems.append(f"{agent.name} ended with {code}: {said.read()[-500:]}")

    def reap(self):
        for agent in self.leaving[:]:
            if agent.runs():
                continue
            if agent.process.returncode not in ENDS:
                self.complain(agent, agent.process.returncode)
            self.leaving.remove(agent)
            os.unlink(f"{self.directory}/{agent.name}.err")

    # -- what is measured

    def add(self, name, value, now):
        self.series.setdefault(name, []).append((now, value))

    def sample(self, agents, now):
        for agent in agents:
            worker = agent.worker()
            agent.first_worker = agent.first_worker or worker
            if not agent.runs() or worker != agent.first_worker:
                self.problems.append(f"{agent.name} was to live for ever, and has ended or replaced its worker")
                return
            for part, pid in (("warden", agent.process.pid), ("worker", worker)):
                self.add(f"{agent.name} {part} memory", memory_kib(pid), now)
                self.add(f"{agent.name} {part} descriptors", len(os.listdir(f"/proc/{pid}/fd")), now)

    def is_due(self, what, now, every):
        if now < self.next.setdefault(what, now + every):
            return False
        self.next[what] = now + every
        return True

    def tend_log(self, now):
        if self.is_due("cut", now, PIECE_S):
            self.log.cut()
            self.next["judge"] = now + CUT_S
        if self.log.number and "judge" in self.next and now >= self.next["judge"]:
            del self.next["judge"]
            self.log.judge_last()

    # -- the whole

    def run(self):
        self.start_redis()
        self.tenure("target", "add", *(f"steady-{i}" for i in range(STEADY)), store=self.store + "?fresh=1")
        agents = [Agent(self, f"long-{i}", self.options.preload) for i in range(LONG_LIVED)]
        start = time.monotonic()
        seconds = self.options.hours * 3600
        while time.monotonic() - start < seconds and not self.problems and not self.log.wrong:
            now = time.monotonic() - start
            if self.is_due("sample", now, SAMPLE_S) and now > 2:
                self.sample(agents, now)
            if self.is_due("agents", now, self.random.uniform(1.0, 4.0)):
                self.change_agents()
            if self.is_due("targets", now, self.random.uniform(0.5, 2.0)):
                self.change_targets()
            self.tend_log(now)
            self.reap()
            time.sleep(0.05)
        self.finish(agents)
        return self.tell(seconds)

    def finish(self, agents):
        for agent in agents + self.passing:
            agent.end(signal.SIGTERM)
        for agent in agents + self.passing + self.leaving:
            try:
                code = agent.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                agent.end(signal.SIGKILL)
                code = "a kill"
            if code != 0 if agent in agents else code not in ENDS:
                self.complain(agent, code)
        self.redis.kill()
        self.redis.wait()
        if "judge" in self.next:
            self.log.judge_last()
        self.log.cut()
        self.log.judge_last()

    def tell(self, seconds):
        print(f"seed {self.options.seed}: {self.log.polls} polls, {self.log.hands} changes of hands; agents: "
              + ", ".join(f"{count} {what}" for what, count in self.done.items()))
        wrong = judge(self.series) + self.log.wrong
        # Half of what the intervals lead to.
        for what, least in (("joined", seconds / 20), ("killed", seconds / 60), ("left", seconds / 60),
                            ("added", seconds / 8), ("removed", seconds / 16)):
            if self.done[what] < math.floor(least):
                self.problems.append(f"only {self.done[what]} {what}, {math.floor(least)} wanted: this run proves too little")
        if self.log.polls < seconds * STEADY / 2 or self.log.hands < seconds / 4:
            self.problems.append(f"{self.log.polls} polls and {self.log.hands} changes of hands are too few")
        for problem in self.problems:
            print(problem)
        bad = bool(wrong or self.problems)
        print("it leaks, or worse" if bad else "memory and descriptors are flat, and nothing was polled twice at a time")
        return 1 if bad else 0


def run(options):
    with tempfile.TemporaryDirectory(prefix="tenure-soak-") as directory:
        soak = Soak(options, directory)
        try:
            return soak.run()
        finally:
            for process in [agent.process for agent in soak.passing + soak.leaving] + [soak.redis]:
                if process and process.poll() is None:
                    process.kill()


def judge_file(path):
    series = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            seconds, rest = line.split(" ", 1)
            name, value = rest.rsplit(" ", 1)
            series.setdefault(name, []).append((float(seconds), float(value)))
    return 1 if judge(series) else 0


def positive(text):
    if not float(text) > 0:
        raise argparse.ArgumentTypeError(f"{text} must be greater than 0")
    return float(text)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    soak = verbs.add_parser("run")
    soak.add_argument("--tenure", required=True)
    soak.add_argument("--poller", required=True)
    soak.add_argument("--hours", type=positive, default=1.0)
    soak.add_argument("--seed", type=int, default=int(time.time()))
    soak.add_argument("--preload")
    verbs.add_parser("judge").add_argument("file")
    options = parser.parse_args()
    return run(options) if options.verb == "run" else judge_file(options.file)


sys.exit(main())
