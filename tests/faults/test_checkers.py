#!/usr/bin/env python3
"""The checkers of tests/faults, on histories and logs written by hand: each has to see what is wrong, and to leave alone what is
not. Prints TAP. (That they see it in real runs, too, is what faults.py --planted shows.)"""
import os
import socket
import sys
import tempfile
import types

import ledger
import linear
import polls
import schedule
from engine import Fired
from linear import FOREVER, Operation
from processes import Port
from pulse import QUEUE, Pulse
from stores import Redis, Sqlite

TTL_US = 1_000_000
polls.BUSY_MS = 1500  # what the numbers below were written for
cases = []


def case(sentence):
    def add(function):
        cases.append((sentence, function))
        return function
    return add


def op(client, kind, event, token, begin_ms, end_ms, holder=None, until_ms=None):
    answered = FOREVER if event == "unknown" else end_ms * 1000
    until = 0 if until_ms is None else until_ms * 1000
    before = until if kind != "acquire" else 0
    return Operation(client, kind, event, token, holder, begin_ms * 1000, answered, before or FOREVER, until)


def wrong(*operations, forgets=(), horizon_us=5 * TTL_US):
    return linear.check("r", list(operations), TTL_US, horizon_us, lag_us=100_000, forgets=forgets)


def good(*operations, **more):
    problems = wrong(*operations, **more)
    assert not problems, problems


def bad(*operations, **more):
    assert wrong(*operations, **more), "nothing wrong was found"


@case("a lease that is taken, renewed, given back and taken by another is one lease")
def _():
    good(op("a", "acquire", "ok", 1, 0, 10), op("b", "acquire", "held", 0, 20, 30), op("a", "renew", "ok", 1, 500, 510),
         op("b", "read", "ok", 1, 520, 530, "a"), op("a", "release", "ok", 1, 600, 610), op("b", "read", "ok", 1, 620, 630),
         op("b", "acquire", "ok", 2, 640, 650))


@case("a lease may be taken by another after its TTL, and not before")
def _():
    good(op("a", "acquire", "ok", 1, 0, 10), op("b", "acquire", "ok", 2, 1005, 1010))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "acquire", "ok", 2, 800, 810))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "ok", 1, 500, 510), op("b", "acquire", "ok", 2, 1200, 1300))


@case("a token that is not higher than the last one is wrong")
def _():
    bad(op("a", "acquire", "ok", 2, 0, 10), op("a", "release", "ok", 2, 20, 30), op("b", "acquire", "ok", 2, 40, 50))
    bad(op("a", "acquire", "ok", 2, 0, 10), op("a", "release", "ok", 2, 20, 30), op("b", "acquire", "ok", 1, 40, 50))


@case("a renewal of a lease that must have ended is wrong")
def _():
    bad(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "ok", 1, 1500, 1510))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "acquire", "ok", 2, 1005, 1010), op("a", "renew", "ok", 1, 1020, 1030))


@case("a renewal that is answered with lost is right only if the lease may be lost")
def _():
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "lost", 1, 1100, 1110))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "lost", 1, 100, 110))
    # Its own deadline had passed: it was not the store that said so.
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "lost", 1, 890, 895, until_ms=880))


@case("a refusal is wrong when nobody can have it")
def _():
    bad(op("a", "acquire", "held", 0, 0, 10))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("a", "release", "ok", 1, 20, 30), op("b", "acquire", "held", 0, 40, 50))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "acquire", "held", 0, 1300, 1310))


@case("operations at the same time may be in any order, others not")
def _():
    good(op("a", "acquire", "ok", 1, 0, 100), op("b", "acquire", "held", 0, 10, 20))
    good(op("a", "release", "ok", 1, 200, 300), op("a", "acquire", "ok", 1, 0, 100), op("b", "acquire", "ok", 2, 210, 220))
    bad(op("a", "acquire", "ok", 1, 50, 100), op("b", "acquire", "held", 0, 10, 20))


@case("what was never answered may have happened, later or not at all")
def _():
    good(op("a", "acquire", "unknown", 0, 0, 0), op("b", "acquire", "held", 0, 500, 510), op("b", "read", "ok", 7, 520, 530, "a"))
    good(op("a", "acquire", "unknown", 0, 0, 0), op("b", "acquire", "ok", 1, 10, 20))
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "release", "unknown", 1, 20, 0), op("b", "acquire", "held", 0, 30, 40),
         op("b", "acquire", "ok", 2, 500, 510))
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "unknown", 1, 900, 0), op("b", "acquire", "held", 0, 1700, 1710))
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "lost", 1, 880, 990, until_ms=890),
         op("b", "acquire", "held", 0, 1700, 1710))


@case("what was never answered cannot happen before it was asked for, nor after the horizon")
def _():
    bad(op("b", "acquire", "held", 0, 0, 10), op("a", "acquire", "unknown", 0, 20, 0))
    bad(op("a", "acquire", "unknown", 0, 0, 0), op("b", "acquire", "held", 0, 7000, 7010), horizon_us=1_000_000)


@case("a read that names another holder, or a token that was never granted, is wrong")
def _():
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "read", "ok", 1, 20, 30, "c"))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "read", "ok", 2, 20, 30, "a"))
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "read", "ok", 1, 20, 30))


@case("who has given its own lease up may be granted a new one at once")
def _():
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "acquire", "ok", 2, 900, 910))
    good(op("a", "acquire", "ok", 1, 0, 10), op("a", "acquire", "ok", 1, 20, 30))
    # Others may see that it is free for a moment, but not before the acquire that gives it up.
    lapsed, again = op("a", "acquire", "ok", 1, 0, 10, until_ms=880), op("a", "acquire", "ok", 2, 900, 910)
    good(lapsed, op("b", "read", "ok", 1, 905, 906), again)
    bad(lapsed, op("b", "read", "ok", 1, 890, 891), again)


@case("while a store has forgotten, reads and refusals tell nothing, but nobody may be let in early")
def _():
    window = [(100_000, 2_000_000)]
    good(op("a", "acquire", "ok", 1, 0, 10), op("b", "read", "ok", 0, 200, 210), op("b", "acquire", "held", 0, 220, 230),
         op("a", "renew", "ok", 1, 300, 310), forgets=window)
    bad(op("a", "acquire", "ok", 1, 0, 10), op("b", "acquire", "ok", 2, 220, 230), forgets=window)
    bad(op("a", "acquire", "ok", 5, 0, 10), op("b", "acquire", "ok", 2, 1220, 1230), forgets=window)


@case("two that believe at the same time are seen")
def _():
    first = op("a", "acquire", "ok", 1, 0, 10, until_ms=900)
    assert ledger.overlaps("r", [first, op("b", "acquire", "ok", 2, 850, 860, until_ms=1700)])
    assert not ledger.overlaps("r", [first, op("b", "acquire", "ok", 2, 905, 910, until_ms=1700)])
    # It gave the lease back, and was not told whether that arrived.
    assert not ledger.overlaps("r", [first, op("a", "release", "unknown", 1, 500, 0),
                                     op("b", "acquire", "ok", 2, 600, 610, until_ms=1700)])


def overlap(*operations):
    return bool(ledger.overlaps("r", list(operations)))


@case("a client that hears long after its deadline that its lease is lost believed until the deadline only")
def _():
    taken = op("a", "acquire", "ok", 1, 0, 10, until_ms=900)
    lost = op("a", "renew", "lost", 1, 880, 3000, until_ms=900)
    assert not overlap(taken, lost, op("b", "acquire", "ok", 2, 1005, 1010, until_ms=1900))
    assert overlap(taken, lost, op("b", "acquire", "ok", 2, 890, 895, until_ms=1900))
    # One that hears it before its deadline believes no longer.
    told = op("a", "renew", "lost", 1, 200, 210, until_ms=900)
    assert not overlap(taken, told, op("b", "acquire", "ok", 2, 300, 310, until_ms=1200))
    assert overlap(taken, told, op("b", "acquire", "ok", 2, 190, 205, until_ms=1200))


@case("a grant that is written down after its deadline is no belief")
def _():
    other = op("b", "acquire", "ok", 2, 1005, 1010, until_ms=1900)
    assert not overlap(op("a", "acquire", "ok", 1, 0, 1500), other)
    assert not overlap(op("a", "acquire", "ok", 1, 0, 1500, until_ms=900), other)
    assert overlap(op("a", "acquire", "ok", 1, 0, 1500, until_ms=1600), other)


@case("a renewal counts with its own deadline, also when that is the earlier one")
def _():
    taken = op("a", "acquire", "ok", 1, 0, 10, until_ms=900)
    shorter = op("a", "renew", "ok", 1, 100, 110, until_ms=300)
    assert not overlap(taken, shorter, op("b", "acquire", "ok", 2, 400, 410, until_ms=1200))
    assert overlap(taken, shorter, op("b", "acquire", "ok", 2, 250, 260, until_ms=1200))
    longer = op("a", "renew", "ok", 1, 500, 510, until_ms=1400)
    assert overlap(taken, longer, op("b", "acquire", "ok", 2, 1300, 1310, until_ms=2000))
    assert not overlap(taken, longer, op("b", "acquire", "ok", 2, 1500, 1510, until_ms=2000))
    # One that was not answered leaves the old deadline as it is.
    unanswered = op("a", "renew", "unknown", 1, 500, 0, until_ms=900)
    assert overlap(taken, unanswered, op("b", "acquire", "ok", 2, 880, 890, until_ms=2000))
    assert not overlap(taken, unanswered, op("b", "acquire", "ok", 2, 910, 920, until_ms=2000))


@case("a renewal that is written down after the old deadline fills no gap between the two beliefs")
def _():
    taken, late = op("a", "acquire", "ok", 1, 0, 10, until_ms=900), op("a", "renew", "ok", 1, 880, 2000, until_ms=2500)
    assert not overlap(taken, late, op("b", "acquire", "ok", 2, 1005, 1010, until_ms=1900))
    assert overlap(taken, late, op("b", "acquire", "ok", 2, 1005, 1010, until_ms=2100))


@case("a release ends the belief before it, not the next one under the same token")
def _():
    first = [op("a", "acquire", "ok", 1, 0, 10, until_ms=900), op("a", "release", "unknown", 1, 100, 0, until_ms=900)]
    again = op("a", "acquire", "ok", 1, 500, 510, until_ms=1400)
    assert overlap(*first, again, op("b", "acquire", "ok", 2, 800, 810, until_ms=1600))
    assert not overlap(*first, again, op("a", "release", "ok", 1, 700, 710, until_ms=1400),
                       op("b", "acquire", "ok", 2, 800, 810, until_ms=1600))
    assert not overlap(*first, op("b", "acquire", "ok", 2, 200, 210, until_ms=400), again)


@case("the last line of a recorder that was killed may be incomplete, no other")
def _():
    whole = "1000 a 1 invoke acquire r-0 0 0 -\n2000 a 1 ok acquire r-0 1 900000 -\n"
    with tempfile.TemporaryDirectory() as directory:
        def read(text):
            with open(f"{directory}/a.1.ledger", "w", encoding="ascii") as log:
                log.write(text)
            return ledger.read(directory)["r-0"]
        assert [each.event for each in read(whole + "3000 a 2 invoke ren")] == ["ok"]
        assert [each.event for each in read(whole[:-5])] == ["unknown"]
        try:
            read("1000 a 1 invoke" + whole)
        except SystemExit:
            return
        raise AssertionError("a damaged line was not seen")


@case("an acquire that was never answered may have happened before refusals that do not name the holder")
def _():
    # d's renewal without an answer may have kept the lease until the last refusal: so nothing but the read tells of a.
    history = [op("d", "acquire", "ok", 1, 0, 10), op("d", "renew", "unknown", 1, 20, 0), op("a", "acquire", "unknown", 0, 900, 0),
               op("b", "acquire", "held", 0, 1100, 1110), op("c", "acquire", "held", 0, 1700, 1710),
               op("b", "read", "ok", 2, 1720, 1730, "a")]
    good(*history, op("d", "acquire", "ok", 3, 2100, 2110))
    bad(*history, op("d", "acquire", "ok", 3, 1900, 1910))
    # Not before d was last seen with it.
    seen = op("c", "read", "ok", 1, 1500, 1510, "d")
    good(*history, seen, op("d", "acquire", "ok", 3, 2600, 2610))
    bad(*history, seen, op("d", "acquire", "ok", 3, 2300, 2310))


@case("who gives up what its own deadline ended may find another between that and its new try")
def _():
    taken, lost = op("a", "acquire", "ok", 1, 0, 10), op("a", "renew", "lost", 1, 890, 895, until_ms=880)
    other = op("b", "acquire", "ok", 2, 905, 910)
    good(taken, lost, op("a", "acquire", "held", 0, 900, 920), other)
    good(taken, lost, op("a", "acquire", "ok", 3, 900, 920), other, op("b", "release", "ok", 2, 912, 914))
    bad(taken, lost, other)                                              # it has given nothing up
    bad(taken, lost, op("a", "acquire", "held", 0, 900, 902), other)     # it is over before
    believing = op("a", "acquire", "ok", 1, 0, 10, until_ms=990)
    bad(believing, op("a", "acquire", "held", 0, 900, 920), other)


@case("a history with dozens of operations without an answer is decided, whichever way")
def _():
    begin = [op("b", "acquire", "ok", 1, 0, 10), op("b", "release", "unknown", 1, 20, 0)]
    unknown = [op(client, "acquire", "unknown", 0, at, 0) for at in range(100, 900, 20) for client in "abcd"]
    end = [op("c", "acquire", "ok", 2, 1050, 1100), op("c", "release", "ok", 2, 1110, 1160), op("d", "read", "ok", 2, 1130, 1190),
           op("b", "acquire", "ok", 3, 1140, 1180), op("a", "read", "ok", 3, 1200, 1210, "b")]
    good(*begin, *unknown, *end)
    problems = wrong(*begin, *unknown, *end, op("d", "read", "ok", 2, 1220, 1230))
    assert problems and "not that of one lease" in problems[0], problems


# ---- the machine

@case("a port that is kept is given to nobody else, and its server can have it")
def _():
    port = Port()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port.number))
        server.listen()
    others = [Port() for _ in range(50)]
    assert port.number not in [other.number for other in others]
    for each in [port, *others]:
        each.close()


@case("a machine that stands still, and a wall clock that jumps, are noticed")
def _():
    moments = [(0, 500_000), (20_000, 520_000), (40_000, 540_100), (900_000, 1_400_100), (920_000, 1_920_100)]
    pulse = Pulse(lambda: moments.pop(0), lambda: 0)
    while moments:
        pulse.beat()
    assert pulse.stalls == [(40_000, 900_000)], pulse.stalls
    assert pulse.jumps == [(920_000, 500_000)], pulse.jumps
    assert len(pulse.circumstances()) == 2


# ---- polls

def judged(lines, fired=(), targets=("t",), begin_ms=0, end_ms=3000, store=None, stalls=(), busy=0):
    with tempfile.NamedTemporaryFile("w", suffix=".polls", delete=False) as log:
        for at_ms, poll, event, target, token, instance in lines:
            log.write(f"{at_ms * 1000} {poll} {event} {target} {token} {instance}-1-00000000\n")
    settings = types.SimpleNamespace(store=store or Sqlite, ttl_ms=1000, every_ms=200, targets=list(targets))
    pulse = Pulse()
    pulse.stalls, pulse.queues = stalls, [(at_ms * 1000, QUEUE * os.cpu_count() * busy) for at_ms in range(0, end_ms, 100)]
    result, _ = polls.judge(log.name, settings, list(fired), {}, begin_ms * 1000, end_ms * 1000, pulse)
    os.unlink(log.name)
    return "\n".join(result.problems)


def fault(lane, kind, who, at_ms, end_ms):
    fired = Fired(schedule.Planned(0, lane, kind, who, 0), at_ms * 1000)
    fired.end_us = end_ms * 1000
    return fired


def poll(name, begin_ms, end_ms, token, instance, target="t"):
    return [(begin_ms, name, "start", target, token, instance), (end_ms, name, "end", target, token, instance)]


@case("polls of one target that overlap, and tokens that are lower or shared, are seen")
def _():
    assert "polled twice" in judged(poll("1", 0, 900, 1, "a") + poll("2", 800, 1500, 2, "b"), end_ms=1500)
    assert "after 2" in judged(poll("1", 0, 900, 2, "a") + poll("2", 910, 1500, 1, "b"), end_ms=1500)
    assert "of both" in judged(poll("1", 0, 900, 1, "a") + poll("2", 910, 1500, 1, "b"), end_ms=1500)
    assert not judged(poll("1", 0, 900, 1, "a") + poll("2", 910, 1500, 2, "b"), end_ms=1500)


@case("a target that is not polled for longer than its bound is seen, at the beginning, within, and at the end")
def _():
    assert "no fault explains" in judged(poll("1", 1800, 1900, 1, "a"), end_ms=1900)
    assert "no fault explains" in judged(poll("1", 0, 100, 1, "a") + poll("2", 1900, 2000, 1, "a"), end_ms=2000)
    assert "no fault explains" in judged(poll("1", 0, 100, 1, "a"), end_ms=2000)
    assert "no fault explains" in judged([], end_ms=2000)
    assert not judged(poll("1", 0, 100, 1, "a") + poll("2", 1700, 2000, 1, "a"), end_ms=2000)


@case("a fault of its host, and no other's, explains a gap, and only for as long as it may last")
def _():
    lines = poll("1", 0, 100, 1, "a") + poll("2", 2900, 3000, 2, "b")
    assert "no fault explains" in judged(lines)
    assert not judged(lines, [fault("host", "host-killed", "a", 50, 900)])
    assert "no fault explains" in judged(lines, [fault("host", "host-killed", "c", 50, 900)])
    late = poll("1", 0, 100, 1, "a") + poll("2", 3900, 4000, 2, "b")
    assert "no fault explains" in judged(late, [fault("host", "host-killed", "a", 50, 900)], end_ms=4000)


@case("while the machine stood still nobody is expected to poll")
def _():
    lines = poll("1", 0, 100, 1, "a") + poll("2", 1900, 2000, 1, "a")
    assert "no fault explains" in judged(lines, end_ms=2000)
    assert not judged(lines, end_ms=2000, stalls=[(500_000, 1_000_000)])
    assert "no fault explains" in judged(lines, end_ms=2000, stalls=[(500_000, 510_000)])


@case("a machine that is twice as busy as the bounds are made for has twice the time, and no more")
def _():
    lines = poll("1", 0, 100, 1, "a") + poll("2", 2900, 3000, 1, "a")
    assert "no fault explains" in judged(lines) and "no fault explains" in judged(lines, busy=1)
    assert not judged(lines, busy=2)
    assert "no fault explains" in judged(poll("1", 0, 100, 1, "a") + poll("2", 3500, 3600, 1, "a"), end_ms=3600, busy=2)
    # However busy it is, there is a bound.
    assert "no fault explains" in judged(poll("1", 0, 100, 1, "a") + poll("2", 5000, 5100, 1, "a"), end_ms=5100, busy=50)


@case("where a token is missing somebody held the target who left no line: any host's fault may explain it")
def _():
    lines = poll("1", 0, 100, 1, "a") + poll("2", 2900, 3000, 3, "b")
    assert not judged(lines, [fault("host", "host-killed", "c", 50, 900)])


@case("a fault of the store explains a gap of every target; one that makes it forget, for a TTL more")
def _():
    lines = poll("1", 0, 100, 1, "a") + poll("2", 4900, 5000, 2, "b")
    assert not judged(lines, [fault("store", "locked", "", 50, 1900)], end_ms=5000)
    assert "no fault explains" in judged(lines, [fault("store", "locked", "", 50, 60)], end_ms=5000)
    assert not judged(lines, [fault("store", "flushed", "", 50, 60)], end_ms=5000, store=Redis)


@case("a schedule is the same for the same seed, deals every kind, and never has two faults of a host at a time")
def _():
    store = types.SimpleNamespace(ttl_ms=1500, addresses=lambda: ["x"], shares_boot_clock=False, harms=Redis.harms, pause_s=0)
    settings = types.SimpleNamespace(ttl_ms=1500, from_file=True, targets=["t-1"])
    plan = schedule.make(5, store, settings, 300)
    assert [repr(each) for each in plan] == [repr(each) for each in schedule.make(5, store, settings, 300)]
    assert {each.kind for each in plan if each.lane == "host"} == set(schedule.KINDS)
    assert {each.kind for each in plan if each.lane == "store"} == set(Redis.harms)
    for name in schedule.NAMES:
        mine = [each for each in plan if each.lane == "host" and each.who == name]
        assert len(mine) > 5
        assert all(before.at_s + before.lasts_s < after.at_s for before, after in zip(mine, mine[1:]))


def main():
    failed = 0
    for number, (sentence, function) in enumerate(cases, 1):
        try:
            function()
            print(f"ok {number} - {sentence}")
        except AssertionError as error:
            failed += 1
            print(f"not ok {number} - {sentence}")
            line = error.__traceback__
            while line.tb_next:
                line = line.tb_next
            print(f"# line {line.tb_lineno}: {error}")
    print(f"1..{len(cases)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
