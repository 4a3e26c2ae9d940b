"""One run: a store, a seed and a length; or, for the planted bugs, a schedule of its own. Called by faults.py and planted.py."""
import os
import shutil
import tempfile

import ledger
import polls
import report
import schedule
from engine import Engine
from fleet import FLEETS, Settings
from harm import KINDS
from stores import Redis, RestoredSqlite, SessionRedis, Sqlite
from stores_etcd import Etcd, RestoredEtcd
from stores_failover import Sentinel, Standbys
from stores_sql import Manager, Postgres

STORES = {each.name: each for each in (Sqlite, RestoredSqlite, Redis, SessionRedis, Sentinel, Postgres, Standbys, Manager, Etcd,
                                       RestoredEtcd)}
# At least, whatever is done to them. A quiet machine does 15 and 90; two cores with sixty processes waiting did 3 and 7.
POLLS_A_SECOND, OPERATIONS_A_SECOND = 1, 3


class Programs:
    def __init__(self, tenure, poller, ledger_client, mutant=None):
        self.tenure, self.poller, self.ledger, self.mutant = tenure, poller, ledger_client, mutant
        self.agent = tenure  # the one that agents run


class Run:
    def __init__(self, store_name, programs, seed, seconds, fleet="plain"):
        self.directory = tempfile.mkdtemp(prefix=f"tenure-faults-{store_name}.")
        self.seed, self.seconds, self.programs = seed, seconds, programs
        self.store = STORES[store_name](f"{self.directory}/store", programs.tenure)
        self.settings = self.engine = self.polls = self.ledger = None
        self.schedule, self.by_target, self.engine_problems = [], {}, []
        self.hosts = schedule.NAMES
        self.fleet = fleet
        self.on_hosts = None  # is called with them before they start

    def prepare(self):
        """Servers are there afterwards, and can be looked at."""
        self.store.start()
        self.settings = Settings(self.store, self.directory, self.programs, self.seed)
        FLEETS[self.fleet](self.settings)

    def carry_out(self, planned=None):
        self.schedule = planned if planned is not None else schedule.make(
            self.seed, self.store, self.settings, self.seconds)
        self.engine = Engine(self.settings, self.schedule, self.hosts)
        if "d" in self.engine.hosts:
            self.engine.hosts["d"].use_fake_clock()
        if self.on_hosts:
            self.on_hosts(self.engine.hosts)
        self.engine.run(self.seconds)
        self.fired, self.begin_us, self.end_us = self.engine.fired, self.engine.begin_us, self.engine.end_us
        self.engine_problems = self.engine.problems
        self.polls, self.by_target = polls.judge(
            self.settings.polls, self.settings, self.fired, self.engine.extra, self.begin_us, self.end_us,
            self.engine.pulse)
        self.ledger = ledger.judge(self.directory, self.settings, self.fired)

    # ---- what it must have seen, to prove anything

    def takeovers_wanted(self):
        displaced = sum(planned.lane == "host" and KINDS[planned.kind].displaces for planned in self.schedule)
        return int(displaced * self.store.takeovers)

    def polls_wanted(self):
        return int(self.seconds * POLLS_A_SECOND)

    def operations_wanted(self):
        return int(self.seconds * OPERATIONS_A_SECOND) if self.settings.ledger else 0

    def too_little(self):
        for what, found, wanted in (("faults", len(self.fired), len(self.schedule)),
                                    ("changes of hands", self.polls.takeovers, self.takeovers_wanted()),
                                    ("polls", self.polls.polls, self.polls_wanted()),
                                    ("operations", self.ledger.operations, self.operations_wanted())):
            if found < wanted:
                yield f"only {found} {what}, {wanted} wanted: this run proves too little"

    def problems(self):
        found = [*self.polls.problems, *self.ledger.problems, *self.engine_problems, *self.too_little()]
        return found + (self.engine.pulse.circumstances() if found else [])

    def summary(self):
        return (f"{self.store.name}, {self.fleet} fleet, seed {self.seed}: {len(self.fired)} faults, {self.polls.polls} polls, "
                f"{self.polls.takeovers} changes of hands, longest without a poll {self.polls.longest_us / 1e6:.1f} s "
                f"({self.polls.longest_counted_us // 1000} ms of it without a fault), {self.ledger.operations} operations "
                f"checked, {self.ledger.unknown} unanswered")

    def report(self, directory):
        report.write(self, directory)

    def end(self, keep=False):
        self.store.stop()
        if keep:
            return self.directory
        shutil.rmtree(self.directory, ignore_errors=True)
        return None


def keeps():
    """Where the files of a run that failed are left: TENURE_FAULTS_KEEP=1 in the environment."""
    return bool(os.environ.get("TENURE_FAULTS_KEEP"))
