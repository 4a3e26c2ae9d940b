"""Judges a run by what its pollers wrote: no target is polled twice at a time, no token is lower than one seen before, and
every target is polled again within its bound.

The bound: outside of the windows of the faults, no target goes without a poll for longer than its interval and BUSY_MS (for
a busy machine, rank delays, and a handover; more where the machine was busier than that, see pulse.py). A window is the time in which a fault may keep a target from being polled:

    of a host    [begin, begin + its TTLs], for the targets that the host polled last, or polls next; and for all of them
                 where a token is missing, for then somebody held the target who left no line. (On SQLite somebody who is
                 stopped may have the lock of the file: that is then a fault of the store.)
    of the store [begin, end + TTL + RECONNECT_MS], and another TTL and a renewal (or more: recovers_ms)
                 where it forgets: newcomers wait
    of operators a forced release: a TTL, for its target
    the machine  whatever it stood still for (pulse.py), for all

A target that was added is polled within the same time; one that was removed is not polled anew after it.
"""
import os
import sys

from harm import KINDS

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import fleet_check  # noqa: E402 (it lies beside)

BUSY_MS, RECONNECT_MS, HAND_MS = 2500, 1200, 300


def name_of(instance):
    return instance.rsplit("-", 2)[0]


def merged(windows):
    result = []
    for begin, end in sorted(windows):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([begin, end])
    return result


class Windows:
    def __init__(self, store, ttl_ms, fired, stalls):
        self.everybody, self.hosts, self.targets = list(stalls), {}, {}
        for fault in fired:
            end_us = fault.end_us or fault.at_us
            if fault.lane == "store":
                more_ms = ttl_ms + RECONNECT_MS + store.may_lag_ms
                if fault.kind in (*store.forgetful, *store.renewing):
                    more_ms += ttl_ms + ttl_ms // 4 + store.recovers_ms
                self.everybody.append((fault.at_us, end_us + more_ms * 1000))
            elif fault.lane == "host":
                length_us = (int(KINDS[fault.kind].ttls * ttl_ms) + HAND_MS + store.may_lag_ms) * 1000
                mine = self.hosts.setdefault(fault.who, [])
                mine.append((fault.at_us, fault.at_us + length_us))
                if fault.kind == "worker-stopped" and store.blocked_by_stopped:
                    self.everybody.append((fault.at_us, end_us + (ttl_ms + RECONNECT_MS) * 1000))
                if fault.kind == "clock-slow":  # it is replaced at the end, too
                    mine.append((end_us - 2 * length_us, end_us + length_us))
            elif fault.kind == "forced":
                length_us = (ttl_ms + HAND_MS + store.may_lag_ms) * 1000
                self.targets.setdefault(fault.who, []).append((fault.at_us, fault.at_us + length_us))

    def of(self, target, before, after):
        """Those that count for a gap between these two polls (None: the run's beginning or end)."""
        windows = self.everybody + self.targets.get(target, [])
        missing = before and after and after.token > before.token + 1
        for name, mine in self.hosts.items():
            if missing or any(poll and name_of(poll.instance) == name for poll in (before, after)):
                windows = windows + mine
        return merged(windows)


class Judgement:
    def __init__(self):
        self.problems = []
        self.polls = self.cut_short = self.takeovers = 0
        self.longest_us, self.longest_counted_us, self.bound_us = 0, 0, 0


def gaps(polls, begin_us, end_us):
    """Times without a poll, each with the polls before and after it."""
    covered, before = begin_us, None
    for poll in [*polls, None]:
        start = min(poll.start, end_us) if poll else end_us
        if start > covered:
            yield covered, start, before, poll
        if poll:
            covered, before = max(covered, poll.last), poll
        if start >= end_us:
            return


def judge(path, settings, fired, extra, begin_us, end_us, pulse):
    result = Judgement()
    by_target, _ = fleet_check.read(path)
    result.problems, result.polls, result.cut_short, result.takeovers = fleet_check.conflicts(by_target)
    windows = Windows(settings.store, settings.ttl_ms, fired, pulse.stalls)

    def bound_us(from_us, until_us):
        return int((settings.every_ms + BUSY_MS * pulse.slowness(from_us, until_us)) * 1000)
    result.bound_us = (settings.every_ms + BUSY_MS) * 1000
    wanted = {target: (begin_us, end_us) for target in settings.targets}
    wanted.update({target: (times[0], times[1] or end_us) for target, times in extra.items()})
    for target, (from_us, until_us) in wanted.items():
        for covered, start, before, after in gaps(by_target.get(target, []), from_us, until_us):
            counted = fleet_check.counted(covered, start, windows.of(target, before, after))
            result.longest_us = max(result.longest_us, start - covered)
            result.longest_counted_us = max(result.longest_counted_us, counted)
            if counted > result.bound_us and counted > bound_us(covered, start):
                result.problems.append(
                    f"{target}: not polled for {(start - covered) // 1000} ms from {covered // 1000}, of which "
                    f"{counted // 1000} ms no fault explains; the bound is {bound_us(covered, start) // 1000}")
    for target, times in extra.items():
        removed_us = times[1]
        for poll in by_target.get(target, []):
            if removed_us and poll.start > removed_us and fleet_check.counted(
                    removed_us, poll.start, windows.of(target, None, None)) > bound_us(removed_us, poll.start):
                result.problems.append(f"{target}: polled at {poll.start // 1000}, removed at {removed_us // 1000}")
    return result, by_target
