"""Carries a schedule out: starts the hosts, does each fault when it is due, undoes it when it is over, and lets the fleet
come to rest. Says what it did and when; judges nothing."""
import concurrent.futures
import contextlib
import heapq
import itertools
import json
import os
import time

from fleet import Host
from harm import KINDS
from processes import PATIENCE_S, Trouble, boot_us, running_with, wait_until
from pulse import Pulse
from schedule import NAMES

RETRY_S, RETRIES = 0.1, 150
CALM_TTLS = 1.0  # between two faults of the store; the schedule leaves more
TEND_S = 0.2


class Fired:
    """A fault that was done: when it began and was over, and for how long after each a target may miss its polls."""
    def __init__(self, planned, at_us):
        self.kind, self.lane, self.who, self.at_us, self.end_us = planned.kind, planned.lane, planned.who, at_us, None

    def as_json(self):
        return {"kind": self.kind, "lane": self.lane, "who": self.who, "at_us": self.at_us, "end_us": self.end_us}


class Engine:
    def __init__(self, settings, schedule, names=NAMES):
        self.settings, self.schedule, self.store = settings, schedule, settings.store
        self.hosts = {name: Host(settings, name, number) for number, name in enumerate(names, 1)}
        self.fired, self.problems, self.due = [], [], []
        self.order = itertools.count()
        self.operators = concurrent.futures.ThreadPoolExecutor(max_workers=2)
        self.healer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.asked = []         # what operators are doing, with what comes after it
        self.extra = {}         # targets that came and went: [from, until]
        self.begin_us = self.end_us = 0
        self.give_up_at = time.monotonic() + PATIENCE_S
        self.calm_at = 0.0      # the store has been well for long enough
        self.tend_at = 0.0
        self.pulse = Pulse()
        self.busy = set()       # hosts, and the store, that a fault is at

    # ---- the log

    def mark(self, name):
        at_us = boot_us()
        line = f"{at_us} - mark {name} - -\n"
        with open(self.settings.polls, "a", encoding="ascii") as log:
            log.write(line)
        return at_us

    # ---- time

    def at(self, when, function, *arguments):
        heapq.heappush(self.due, (when, next(self.order), function, arguments))

    def turn(self):
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            _, _, function, arguments = heapq.heappop(self.due)
            function(*arguments)
        for asked in [each for each in self.asked if each[0].done()]:
            self.asked.remove(asked)
            asked[1](asked[0])
        if now >= self.tend_at:
            self.tend_at = now + TEND_S
            self.problems += filter(None, [host.tend() for host in self.hosts.values()])
        time.sleep(0.01)

    # ---- faults

    def fire(self, planned, tries=0):
        begin = {"host": self.begin_host, "store": self.begin_store, "operator": self.begin_operator}[planned.lane]
        try:
            begin(planned, tries)
        except Trouble as trouble:
            # A store that is hit again and again on a busy machine, where it takes long to heal, keeps hosts from being
            # well. That is waited for, as long as the whole run is.
            if tries >= RETRIES and time.monotonic() > self.give_up_at:
                self.problems.append(f"{planned}: not done: {trouble}")
            else:
                self.at(time.monotonic() + RETRY_S, self.fire, planned, tries + 1)

    def note(self, planned, at_us):
        fired = Fired(planned, at_us)
        self.fired.append(fired)
        self.mark(f"fault-{planned.kind}-{planned.who or 'store'}")
        return fired

    def begin_host(self, planned, _tries):
        host, kind, at_us = self.hosts[planned.who], KINDS[planned.kind], boot_us()
        if not host.runs() or not host.worker() or planned.who in self.busy:
            raise Trouble(f"{host.name} has no worker, or is not well yet")
        kind.begin(host)
        fired = self.note(planned, at_us)
        if kind.finish:
            self.busy.add(planned.who)
            self.at(time.monotonic() + planned.lasts_s, self.finish_host, host, kind, fired)
        else:
            fired.end_us = boot_us()

    def finish_host(self, host, kind, fired):
        kind.finish(host)
        fired.end_us = boot_us()
        self.busy.discard(host.name)

    def begin_store(self, planned, _tries):
        at_us = boot_us()
        if "store" in self.busy or time.monotonic() < self.calm_at:
            raise Trouble("the store is not well yet")
        self.store.harm(planned.kind)
        fired = self.note(planned, at_us)
        if self.store.harms[planned.kind]:
            self.busy.add("store")
            self.at(time.monotonic() + planned.lasts_s, self.finish_store, planned.kind, fired)
        else:
            fired.end_us = boot_us()
            self.leave_in_peace()

    def leave_in_peace(self):
        """What was late must not be followed by the next at once: hosts have to get well in between."""
        self.calm_at = time.monotonic() + CALM_TTLS * self.settings.ttl_ms / 1000

    def finish_store(self, kind, fired):
        def done(future):
            future.result()
            fired.end_us = boot_us()
            self.busy.discard("store")
            self.leave_in_peace()
        healing = self.healer.submit(self.store.heal, kind)
        if not self.store.slow_to_heal:
            concurrent.futures.wait([healing])
        self.asked.append((healing, done))

    # ---- operators: a command can fail or hang while the store is in trouble, and is then given again

    def ask(self, planned, tries, then, *words, again=None, already=None):
        """`again` is how to try again; else it is planned anew, for what was true may no longer be. `already`: what the
        command says when an earlier try has done it, and only its answer was lost. It is done in a thread: a command can
        hang for as long as the store does, and faults must end in time."""
        def done(future):
            try:
                future.result()
            except (Trouble, OSError) as error:
                if not already or already not in str(error):
                    if tries >= RETRIES and time.monotonic() > self.give_up_at:
                        self.problems.append(f"{planned}: not done: {error}")
                    else:
                        self.at(time.monotonic() + RETRY_S, again or (lambda: self.fire(planned, tries + 1)))
                    return
            then(at_us)
        at_us = boot_us()
        self.asked.append((self.operators.submit(self.store.command, *words, timeout=6), done))

    def begin_operator(self, planned, tries):
        if planned.kind == "drained":
            instance = self.hosts[planned.who].instance()
            if not instance:
                raise Trouble(f"{planned.who} has no instance yet")
            self.ask(planned, tries, lambda at_us: self.drain(planned, instance, at_us), "drain", instance)
        elif planned.kind == "forced":
            self.ask(planned, tries, lambda at_us: self.over(self.note(planned, at_us)), "release", planned.who, "--force")
        else:
            self.put_target(planned, tries)

    @staticmethod
    def over(fired):
        fired.end_us = boot_us()

    def drain(self, planned, instance, at_us):
        fired = self.note(planned, at_us)
        self.at(time.monotonic() + planned.lasts_s, self.undrain, fired, instance)

    def undrain(self, fired, instance):
        """An instance that has gone meanwhile takes its draining along."""
        def undo():
            nodes = self.store.command("nodes", "--json", timeout=6)
            if f'"{instance}"' in nodes:
                self.store.command("drain", instance, "--undo", timeout=6)

        def done(future):
            try:
                future.result()
                fired.end_us = boot_us()
            except (Trouble, OSError):
                self.at(time.monotonic() + RETRY_S, again)

        def again():
            self.asked.append((self.operators.submit(undo), done))
        again()

    # ---- targets

    def write_targets(self):
        with open(self.settings.target_file + ".new", "w", encoding="ascii") as file:
            present = [name for name, times in self.extra.items() if times[1] is None]
            file.writelines(f"{target}\n" for target in self.settings.targets + present)
        os.rename(self.settings.target_file + ".new", self.settings.target_file)

    def put_target(self, planned, tries):
        def put(at_us):
            self.extra[planned.who] = [boot_us() if at_us else 0, None]
            if self.settings.from_file:
                self.write_targets()
            fired = self.note(planned, at_us)
            self.at(time.monotonic() + planned.lasts_s, self.remove_target, planned, fired)
        if self.settings.from_file:
            put(boot_us())
        else:
            self.ask(planned, tries, put, "target", "add", planned.who)

    def remove_target(self, planned, fired):
        def removed(_at_us):
            self.extra[planned.who][1] = boot_us()
            if self.settings.from_file:
                self.write_targets()
            fired.end_us = boot_us()
        if self.settings.from_file:
            removed(0)
        else:
            self.ask(planned, 0, removed, "target", "rm", planned.who, again=lambda: self.remove_target(planned, fired),
                     already="there is no target")

    # ---- the run

    def polled_since(self, at_us):
        seen = set()
        with open(self.settings.polls, encoding="ascii") as log:
            for line in log:
                words = line.split()
                if len(words) == 6 and words[2] == "start" and int(words[0]) >= at_us:
                    seen.add(words[3])
        return seen

    def all_polled(self, since_us):
        wanted = set(self.settings.targets)
        return lambda: wanted <= self.polled_since(since_us)

    def announced(self):
        self.turn()
        with contextlib.suppress(Trouble):
            return len(self.store.command("nodes", "--json").splitlines()) == len(self.hosts)
        return False

    def prepare(self):
        """All are there before there are targets: the first would take everything, and long polls are not handed over."""
        open(self.settings.target_file, "w", encoding="ascii").close()
        open(self.settings.polls, "a", encoding="ascii").close()
        self.store.prepare(("poll", "ledger"))
        self.settings.open_to_user()
        for host in self.hosts.values():
            host.start()
        wait_until(PATIENCE_S, "every host is announced", self.announced)
        time.sleep(self.settings.settle_ms / 1000 + 0.5)
        if self.settings.from_file:
            self.write_targets()
        else:
            self.store.command_surely("target", "add", *self.settings.targets)
        wait_until(PATIENCE_S, "every target is polled", self.all_polled(0))
        time.sleep(0.5)

    def carry_out(self, seconds):
        start = time.monotonic()
        for planned in self.schedule:
            self.at(start + planned.at_s, self.fire, planned)
        # What was begun is brought to its end, also when that is late.
        self.give_up_at = start + seconds + PATIENCE_S / 3
        limit = start + seconds + 2 * PATIENCE_S
        while time.monotonic() < start + seconds or self.due or self.asked:
            self.turn()
            if time.monotonic() > limit:
                raise Trouble(f"it does not come to an end; due: {self.due}, asked: {self.asked}")

    def all_well(self):
        self.turn()
        return all(host.runs() and host.worker() for host in self.hosts.values())

    def come_to_rest(self):
        calm_us = self.mark("calm")
        wait_until(PATIENCE_S, "every host has a worker", self.all_well)
        ttl_s = self.settings.ttl_ms / 1000
        with contextlib.suppress(Trouble):  # a target that is not polled is for the judge to find
            wait_until(5 + 2 * ttl_s, "every target is polled after the faults", self.all_polled(calm_us))
        time.sleep(ttl_s + 1)

    def leases(self):
        return [json.loads(line) for line in self.store.command_surely("ls", "--json").splitlines()]

    def check_holders(self):
        """Every lease is free, or held by an instance that lives."""
        living = {host.instance() for host in self.hosts.values()}
        for lease in self.leases():
            if lease["instance"] and lease["instance"] not in living:
                self.problems.append(f"{lease['target']} is held by {lease['instance']}, which does not run; "
                                     f"those that do: {sorted(living)}")

    def said_since(self, host, since):
        with open(host.path("err"), encoding="utf-8", errors="replace") as log:
            log.seek(since)
            return log.read()

    def check_free(self, sizes):
        left = [lease for lease in self.leases() if lease["instance"]]
        said = {name: self.said_since(host, sizes[name]) for name, host in self.hosts.items()}
        # Where the store did not answer, a lease may end by its TTL instead.
        excused = [name for name, text in said.items()
                   if any(word in text for word in ("store_down", "renew_failed", "not answer"))]
        if left and all(lease["instance"].rsplit("-", 2)[0] in excused for lease in left):
            time.sleep((self.settings.ttl_ms + self.store.may_lag_ms) / 1000 + 1)
            left = [lease for lease in self.leases() if lease["instance"]]
        for lease in left:
            host = lease["instance"].rsplit("-", 2)[0]
            self.problems.append(f"{lease['target']} is still held by {lease['instance']}, though all have stopped; "
                                 f"what its host said since then: {said.get(host, '')[-400:]!r}")

    def stop(self):
        sizes = {name: os.path.getsize(host.path("err")) for name, host in self.hosts.items()}
        for host in self.hosts.values():
            host.stop()
        for host in self.hosts.values():
            codes = host.wait()
            if any(codes):
                self.problems.append(f"{host.name} was asked to stop; its agent and its recorder ended with {codes}")
        self.check_free(sizes)
        with contextlib.suppress(Trouble):  # what was killed needs a processor once more to end
            wait_until(3, "no poller is left", lambda: not running_with(self.settings.polls))
        for pid in running_with(self.settings.polls):
            self.problems.append(f"process {pid} of a poller is still there, though all have stopped")

    def run(self, seconds):
        self.pulse.start()
        try:
            self.prepare()
            self.begin_us = self.mark("begin")
            self.carry_out(seconds)
            self.come_to_rest()
            self.end_us = self.mark("end")
            self.check_holders()
            self.stop()
        finally:
            self.pulse.stop()
            for host in self.hosts.values():
                host.end()
            self.operators.shutdown(wait=False)
            self.healer.shutdown(wait=True)
