"""Planted bugs, as real processes: each run has one, under a schedule that lets it show, and must be found by the same checks
that find nothing in the others. A bug is a mutant of the core (tests/mutants, built into a program of its own), something
that goes on behind the store's back, a warden that is asleep, or a recorder that lies. Called by faults.py --planted."""
import collections
import signal
import subprocess
import sys

from harm import KINDS, Kind, continue_warden, continue_worker, stop_warden, stop_worker, told
from fleet import LEDGER_TARGETS
from processes import Trouble, start
from run import Run, keeps
from schedule import Planned

TRIES = 3    # a bug needs its moment to show, which a busy machine may miss
AT_ONCE = 3  # more of them, beside other tests, and the machine is too busy for what they show


class Bug:
    """`plan` is (second, lane, kind, whom, how many seconds) a line; `tune` is called with the run before it starts."""
    def __init__(self, name, what, store, expect, plan=(), mutant=None, tune=None, seconds=5.0, ttl_ms=1500):
        self.name, self.what, self.store, self.mutant = name, what, store, mutant
        self.expect = (expect,) if isinstance(expect, str) else expect  # one of these is to be said
        self.plan, self.tune, self.seconds, self.ttl_ms = plan, tune, seconds, ttl_ms


# ---- kinds of harm that no schedule but these have

def stop_both(host):
    stop_worker(host)
    stop_warden(host)


def continue_both(host):
    continue_warden(host)
    continue_worker(host)


def start_stray(host):
    settings = host.settings
    start([settings.programs.poller, settings.polls, "poll", "60000"], host.path("stray.err"),
          {"TENURE_TARGET": "t-1", "TENURE_TOKEN": "1", "TENURE_INSTANCE": "stray-1-00000000"})


KINDS_OF_BUGS = {
    "stray-poll": Kind(start_stray, None, None, displaces=False),
    "warden-and-worker-stopped": Kind(stop_both, continue_both, (1, 2)),
    "nothing": Kind(lambda host: None, None, None),
    # What was answered still arrives, late; what is asked no longer does.
    "late-then-cut": Kind(told("delay 850 down"), told("drop up"), (1, 2)),
}


# ---- tunings

def long_polls(run):
    """Polls that outlast a lease, and do not end when asked to: what goes on too long is seen."""
    run.settings.poll_ms = str(3 * run.settings.ttl_ms)
    run.settings.poll_options = "stubborn"


def close_to_the_edge(run):
    long_polls(run)
    run.settings.agent_options = ["--margin", "20ms", "--grace", "20ms"]


def slow_clock(run):
    """Others wait for the end of its heartbeat, too, which may be sent a renewal's time after the renewals."""
    long_polls(run)
    run.settings.renew_ms = 150
    run.settings.agent_options = ["--grace", "20ms"]
    run.on_hosts = lambda hosts: setattr(hosts["a"], "slow_clock", 0.9)


def fresh(run):
    long_polls(run)
    run.settings.url_options = "?fresh=1"


def lying(how):
    def tune(run):
        run.settings.lie = how
    return tune


def harm_of_store(name, does):
    """One more fault of this run's store: what goes on behind its back."""
    def tune(run):
        long_polls(run)
        run.store.harms = {**run.store.harms, name: None}
        setattr(run.store, "do_" + name.replace("-", "_"), lambda: does(run.store))
    return tune


def delete_leases(store):
    for number in range(LEDGER_TARGETS):
        store.cli("DEL", f"ledger:lease:r-{number}")


def lower_counters(store):
    store.cli("EVAL", """for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
        if field:sub(1, 1) == 'L' then
            local record = redis.call('HGET', KEYS[1], field):gsub('^(%d+%D%d+[^%z]*%z)%d+', '%11')
            redis.call('HSET', KEYS[1], field, record)
        end
    end""", "1", "tenure:ledger:records")
    delete_leases(store)


def lose_target(store):
    store.command("target", "rm", "t-1")


CUT = ((0.5, "host", "cut", "a", 3.5),)
TWICE = "polled twice"
BUGS = [
    Bug("held-is-ok", "a refused acquire is taken for a grant", "sqlite", TWICE,
        ((0.3, "host", "warden-killed", "a", 3),), "HELD_IS_OK", long_polls),
    Bug("error-is-ok", "a renewal that failed is taken for granted", "redis", TWICE, CUT, "ERROR_IS_OK", long_polls),
    Bug("release-before-stop", "a lease is released while its poll still runs", "sqlite", TWICE,
        ((0.5, "operator", "drained", "a", 2), (1.5, "operator", "drained", "b", 2)), "RELEASE_BEFORE_STOP", long_polls),
    Bug("old-token", "a new grant keeps the old token", "sqlite", "token",
        ((0.3, "operator", "drained", "a", 1), (2.5, "operator", "drained", "b", 1), (3.5, "operator", "drained", "c", 1)),
        "OLD_TOKEN"),
    Bug("deadline-from-receipt", "the deadline counts from the answer's arrival", "redis", TWICE,
        ((0.3, "host", "late-then-cut", "a", 3.2),), "DEADLINE_FROM_RECEIPT", close_to_the_edge,
        seconds=12, ttl_ms=6000),
    Bug("no-margin", "the deadline has no margin, and a clock is slow", "redis", TWICE,
        ((1.0, "host", "requests-lost", "a", 8.0),), "NO_MARGIN", slow_clock, seconds=9.5, ttl_ms=6000),
    Bug("left-not-noticed", "instances that are gone stay in the plan", "sqlite", "no fault explains",
        ((0.3, "host", "host-killed", "a", 12),), "LEFT_NOT_NOTICED", seconds=13),
    Bug("target-lost", "the registry loses a target", "sqlite", "no fault explains",
        ((0.5, "store", "target-lost", "", 0),), None, harm_of_store("target-lost", lose_target), seconds=2),
    Bug("stop-forgets", "an agent that stops does not give its targets back", "sqlite", "is still held by",
        mutant="STOP_FORGETS", seconds=2),
    Bug("warden-asleep", "the warden does not end the polls of a worker that is stopped", "sqlite", TWICE,
        ((0.5, "host", "warden-and-worker-stopped", "a", 3.5),), None, long_polls),
    Bug("stray", "a poll goes on that nobody ends", "sqlite", "is still there", ((0.5, "host", "stray-poll", "a", 0),), seconds=2),
    Bug("grants-twice", "the store forgets leases that are held, and grants them again", "redis", "believed in token",
        ((1.0, "store", "leases-deleted", "", 0),), None, harm_of_store("leases-deleted", delete_leases), seconds=3),
    Bug("counts-anew", "the store forgets its counters", "redis", "is not that of one lease",
        ((1.0, "store", "counters-lowered", "", 0),), None, harm_of_store("counters-lowered", lower_counters), seconds=4),
    Bug("no-epoch", "a store that lost its data is taken for a new one", "redis", (TWICE, "believed in token"),
        ((0.3, "host", "held-back", "a", 3), (0.5, "store", "flushed", "", 0)), None, fresh),
    Bug("lies-held", "the recorder calls a refusal a grant", "sqlite", "believed in token", tune=lying("held"), seconds=3),
    Bug("lies-release", "the recorder tells of releases that it never sent", "sqlite", "is not that of one lease",
        tune=lying("release"), seconds=3),
    Bug("lies-renew", "the recorder tells of renewals that it never sent", "sqlite", "is not that of one lease",
        tune=lying("renew"), seconds=4),
    Bug("does-nothing", "the harness does not do what was planned", "sqlite", "proves too little",
        [(0.02 * number, "host", "nothing", "a", 0) for number in range(40)], seconds=1),
]
BY_NAME = {bug.name: bug for bug in BUGS}
# Of each kind one or two, for every run of the tests; the others are as much work again.
QUICK = ["held-is-ok", "error-is-ok", "release-before-stop", "lies-held", "stop-forgets", "warden-asleep", "grants-twice",
         "no-epoch", "lies-release", "does-nothing"]
GROUPS = {"quick": QUICK, "rest": [bug.name for bug in BUGS if bug.name not in QUICK]}


def find(bug, programs):
    """What the checks say of a run with this bug."""
    KINDS.update(KINDS_OF_BUGS)
    run = Run(bug.store, programs, 1, bug.seconds)
    run.store.ttl_ms, run.hosts = bug.ttl_ms, "abc"
    try:
        run.prepare()
        if bug.mutant:
            run.settings.programs.agent = programs.mutant
            run.settings.agent_environment = {"TENURE_MUTANT": bug.mutant}
        if bug.tune:
            bug.tune(run)
        run.carry_out([Planned(*line) for line in bug.plan])
        return run.problems()
    except Trouble as trouble:
        return [f"the run came to nothing: {trouble}", *(run.engine.problems if run.engine else [])]
    finally:
        run.end(keep=keeps())


def run_one(tap, programs, name):
    if name not in BY_NAME:
        sys.exit(f"faults: there is no planted bug '{name}'; there are {', '.join(sorted(BY_NAME))}")
    bug = BY_NAME[name]
    for tries in range(1, TRIES + 1):
        problems = find(bug, programs)
        found = [problem for problem in problems if any(text in problem for text in bug.expect)]
        if found:
            break
    if tries > 1 and found:
        found = [f"only at try {tries}", *found]
    tap.tell(f"found: {bug.what} ({bug.name})",
             [] if found else [f"no problem says {' or '.join(map(repr, bug.expect))}; it says:", *(problems or ["nothing is wrong"])], found[:2])


def run_all(tap, programs, names, _report):
    """One in this process; several as processes of their own, a few at a time: they wait most of the time."""
    names = [bug.name for bug in BUGS] if not names else GROUPS.get(names[0], names)
    if len(names) == 1:
        run_one(tap, programs, names[0])
        return
    waiting, running = collections.deque(names), []
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            name = waiting.popleft()
            running.append((name, subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, sys.argv[0], "--tenure", programs.tenure, "--poller", programs.poller, "--ledger",
                 programs.ledger, "--mutant", programs.mutant, "--planted", name], stdout=subprocess.PIPE, text=True)))
        name, process = running.pop(0)
        try:
            out, _ = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, _ = process.communicate()
        notes = [line[2:] for line in out.splitlines() if line.startswith("# ")]
        good = process.returncode == 0
        tap.tell(f"found: {BY_NAME[name].what} ({name})", [] if good else notes or ["it has told nothing"], notes if good else [])
