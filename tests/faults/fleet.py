"""The hosts of a run: each has an agent, whose poller keeps the log, a client that records operations (ledger_client), and
proxies between them and the store. Started and ended here; what is done to them is in harm.py."""
import glob
import json
import os
import signal
import subprocess

from processes import NO_STORE, PATIENCE_S, children_of, end, running_with, send, start
from proxy import Proxies

LEDGER_TARGETS = 6


class Settings:
    """What the hosts of a run have in common."""
    def __init__(self, store, directory, programs, seed):
        self.store, self.directory, self.programs, self.seed = store, directory, programs, seed
        self.ttl_ms = store.ttl_ms
        self.every_ms, self.settle_ms, self.renew_ms = 200, 300, self.ttl_ms // 4
        self.longest_poll_ms = 40 + self.ttl_ms * 6 // 10
        self.poll_ms = f"$(( TENURE_TOKEN % 7 * {self.ttl_ms} / 10 + 40 ))"
        self.poll_options = ""
        self.agent_options = []
        self.agent_environment = {}
        self.lie = None
        self.ledger = True
        self.url_options = ""
        self.targets = [f"t-{number}" for number in range(1, 9)]
        self.polls = f"{directory}/polls"
        self.target_file = f"{directory}/targets"

    def source(self):
        return f"file:{self.target_file}" if self.store.loses_data else "store"


def fake_clock_library():
    return sorted(glob.glob("/usr/lib/*/faketime/libfaketime.so.1"))[0]


class Host:
    def __init__(self, settings, name, number):
        self.settings, self.name, self.number, self.starts = settings, name, number, 0
        self.agent = self.ledger = self.stopped = None
        self.wanted = False     # its agent is to run: nobody has ended it, nor asked it to end
        self.clock_file = None  # what libfaketime is to say of the wall clock
        self.slow_clock = None  # its rate
        self.environment = {}   # of its agent alone
        addresses = settings.store.addresses()
        self.proxies = Proxies(settings.directory, f"proxy-{name}-", addresses) if addresses else None

    def url(self):
        return self.settings.store.url(self.proxies.ports if self.proxies else None) + self.settings.url_options

    def path(self, kind):
        return f"{self.settings.directory}/{self.name}.{kind}"

    def use_fake_clock(self):
        self.clock_file = self.path("clock")
        self.set_clock("+0")

    def set_clock(self, offset):
        with open(self.clock_file + ".new", "w", encoding="ascii") as file:
            file.write(offset + "\n")
        os.rename(self.clock_file + ".new", self.clock_file)

    def clock_environment(self):
        if self.slow_clock:
            return {"LD_PRELOAD": fake_clock_library(), "FAKETIME": f"+0 x{self.slow_clock}", "NO_FAKE_STAT": "1"}
        if self.clock_file:
            return {"LD_PRELOAD": fake_clock_library(), "FAKETIME_TIMESTAMP_FILE": self.clock_file,
                    "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
                    "NO_FAKE_STAT": "1"}
        return {}

    def start_agent(self):
        settings = self.settings
        self.wanted = True
        # The poller's own clock is never a faked one.
        poll = (f"exec:exec env -u LD_PRELOAD {settings.programs.poller} {settings.polls} poll {settings.poll_ms} "
                f"{settings.poll_options}")
        self.agent = start(
            [settings.programs.agent, "agent", "--name", self.name, "--targets", settings.source(), "--store", self.url(),
             "--ttl", f"{settings.ttl_ms}ms", "--renew", f"{settings.renew_ms}ms", "--settle",
             f"{settings.settle_ms}ms", "--every", f"{settings.every_ms}ms", "--timeout", "30s", "--log-format", "json",
             "--poll", poll, *settings.agent_options], self.path("err"),
            {**settings.agent_environment, **self.environment, **self.clock_environment()})

    def start_ledger(self):
        settings = self.settings
        if not settings.ledger:
            return
        self.starts += 1
        self.ledger = start(
            [settings.programs.ledger, self.url(), self.name, self.path(f"{self.starts}.ledger"),
             str(settings.seed * 1000 + self.number * 100 + self.starts), str(settings.ttl_ms), str(LEDGER_TARGETS),
             *([settings.lie] if settings.lie else [])], self.path("ledger.err"))

    def start(self):
        self.start_agent()
        self.start_ledger()

    def runs(self):
        return self.agent is not None and self.agent.poll() is None

    def worker(self):
        """For a moment after a crash there is also the process that gives the leases back; it is older."""
        children = children_of(self.agent.pid)
        return children[-1] if children else None

    def instance(self):
        """Of its present worker, as its log tells."""
        last = None
        with open(self.path("err"), encoding="utf-8", errors="replace") as log:
            for line in log:
                if line.startswith("{") and line.endswith("}\n") and f'"instance":"{self.name}-' in line:
                    last = json.loads(line)["instance"]
        return last

    def pollers(self):
        return running_with(self.settings.polls)

    def tend(self):
        """As an init system would: an agent that found no store when it started is started again."""
        if not self.wanted or self.runs():
            return None
        if self.agent.returncode == NO_STORE:
            self.start_agent()
            return None
        self.wanted = False
        return f"the agent of {self.name} has ended by itself, with {self.agent.returncode}"

    def stop(self):
        """In order: what it was asked to do is what its exit code is about."""
        self.wanted = False
        if self.ledger:
            send(self.ledger.pid, signal.SIGTERM)
        send(self.agent.pid, signal.SIGTERM)

    def wait(self):
        codes = []
        for process in filter(None, (self.agent, self.ledger)):
            try:
                codes.append(process.wait(timeout=PATIENCE_S))
            except subprocess.TimeoutExpired:
                codes.append(f"still there after {PATIENCE_S} s")
        return codes

    def end(self):
        worker = self.worker() if self.runs() else None
        end(self.agent)
        if worker:
            send(worker, signal.SIGKILL)
        end(self.ledger)
        if self.proxies:
            self.proxies.end()
