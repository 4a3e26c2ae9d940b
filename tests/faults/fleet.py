"""The hosts of a run: each has an agent, whose poller keeps the log, a client that records operations (ledger_client), and
proxies between them and the store. Started and ended here; what is done to them is in harm.py."""
import glob
import json
import os
import shutil
import signal
import subprocess

from processes import NO_STORE, PATIENCE_S, USAGE, children_of, end, running_with, send, start
from proxy import Proxies

LEDGER_TARGETS = 6
NOBODY = 65534


class Settings:
    """What the hosts of a run have in common."""
    def __init__(self, store, directory, programs, seed):
        self.store, self.directory, self.programs, self.seed = store, directory, programs, seed
        self.ttl_ms = store.ttl_ms
        self.every_ms, self.settle_ms, self.renew_ms = 200, 300, self.ttl_ms // 4
        self.longest_poll_ms = 40 + self.ttl_ms * 6 // 10
        self.poll_ms = f"$(( TENURE_TOKEN % 7 * {self.ttl_ms} / 10 + 40 ))"
        self.poll_options = ""
        self.poller = programs.poller
        self.user = None  # of agents and recorders, if that is another
        self.from_file = store.loses_data  # where the targets are
        self.agent_options = []
        self.agent_environment = {}
        self.lie = None
        self.ledger = True
        self.url_options = ""
        self.targets = [f"t-{number}" for number in range(1, 9)]
        self.polls = f"{directory}/polls"
        self.target_file = f"{directory}/targets"
    def open_to_user(self):
        """What was made so far, where the store is files."""
        os.chmod(self.polls, 0o666)
        if self.user and self.store.name == "sqlite":
            for directory, _, files in os.walk(self.store.directory):
                for path in (directory, *(f"{directory}/{file}" for file in files)):
                    os.chown(path, self.user, self.user)


# ---- other fleets than the plain one

def make_plain(_settings):
    pass


def make_many(settings):
    """A thousand polls at a time, long ones: a processor can start a few hundred a second."""
    settings.ttl_ms, settings.every_ms = max(settings.ttl_ms, 6000), 8000
    settings.renew_ms = settings.ttl_ms // 4
    settings.poll_ms, settings.longest_poll_ms = "$(( TENURE_TOKEN % 5 * 1000 + 6000 ))", 10000
    settings.poll_options = "beat 300"
    settings.targets = [f"t-{number}" for number in range(1, 1001)]


def make_set_uid(settings):
    """The commands are root's and the agents are not: nobody can end a poll before it ends by itself, which is before its lease
    does. So whoever releases a target whose poll could not be ended makes two polls of it."""
    settings.user = NOBODY
    settings.poller = f"{settings.directory}/poller"
    settings.poll_ms, settings.poll_options = str(settings.ttl_ms * 6 // 10), "root"
    settings.agent_options = ["--pid-namespace", "off"]
    shutil.copyfile(settings.programs.poller, settings.poller)
    os.chmod(settings.poller, 0o4755)
    os.chmod(settings.directory, 0o777)


def make_files(settings):
    """Targets from a file, on every store: a source that can hang."""
    settings.from_file = True


FLEETS = {"plain": make_plain, "many": make_many, "set-uid": make_set_uid, "files": make_files}


def fake_clock_library():
    return sorted(glob.glob("/usr/lib/*/faketime/libfaketime.so.1"))[0]


class Host:
    def __init__(self, settings, name, number):
        self.settings, self.name, self.number, self.starts = settings, name, number, 0
        self.agent = self.ledger = self.stopped = None
        self.log_start = 0      # where the log of its present agent begins
        self.wanted = False     # its agent is to run: nobody has ended it, nor asked it to end
        self.clock_file = None  # what libfaketime is to say of the wall clock
        self.slow_clock = None  # its rate
        self.source_hung = False  # the file of its targets was not one while its agent may have been starting
        self.environment = {}   # of its agent alone
        addresses = settings.store.addresses()
        self.proxies = Proxies(settings.directory, f"proxy-{name}-", addresses) if addresses else None

    def url(self):
        return self.settings.store.url(self.proxies.ports if self.proxies else None) + self.settings.url_options

    def path(self, kind):
        return f"{self.settings.directory}/{self.name}.{kind}"

    def source(self):
        """A file is the host's own, so that it can hang alone; else it is the same for all."""
        if not self.settings.from_file:
            return "store"
        if not os.path.lexists(self.path("targets")):
            self.heal_source()
        return f"file:{self.path('targets')}"

    def heal_source(self):
        os.symlink(self.settings.target_file, self.path("targets.new"))
        os.rename(self.path("targets.new"), self.path("targets"))

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
        self.log_start = os.path.getsize(self.path("err")) if os.path.exists(self.path("err")) else 0
        # The poller's own clock is never a faked one.
        poll = (f"exec:exec env -u LD_PRELOAD {settings.poller} {settings.polls} poll {settings.poll_ms} "
                f"{settings.poll_options}")
        self.agent = start(
            [settings.programs.agent, "agent", "--name", self.name, "--targets", self.source(), "--store", self.url(),
             "--ttl", f"{settings.ttl_ms}ms", "--renew", f"{settings.renew_ms}ms", "--settle",
             f"{settings.settle_ms}ms", "--every", f"{settings.every_ms}ms", "--timeout", "30s", "--log-format", "json",
             "--poll", poll, *settings.agent_options], self.path("err"),
            {**settings.agent_environment, **self.environment, **self.clock_environment()}, user=settings.user, group=0)

    def start_ledger(self):
        settings = self.settings
        if not settings.ledger:
            return
        self.starts += 1
        self.ledger = start(
            [settings.programs.ledger, self.url(), self.name, self.path(f"{self.starts}.ledger"),
             str(settings.seed * 1000 + self.number * 100 + self.starts), str(settings.ttl_ms), str(LEDGER_TARGETS),
             *([settings.lie] if settings.lie else [])], self.path("ledger.err"), user=settings.user)

    def start(self):
        self.start_agent()
        self.start_ledger()

    def runs(self):
        return self.agent is not None and self.agent.poll() is None

    def worker(self):
        """For a moment after a crash there is also the process that gives the leases back; it is older."""
        children = children_of(self.agent.pid)
        return children[-1] if children else None

    def has_begun(self):
        """Its present agent has read its targets."""
        with open(self.path("err"), encoding="utf-8", errors="replace") as log:
            log.seek(self.log_start)
            return '"event":"plan_changed"' in log.read()

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
        if self.agent.returncode == USAGE and self.source_hung:  # to an agent that starts it is a mistake of its user
            if os.path.islink(self.path("targets")):
                self.source_hung = False
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
