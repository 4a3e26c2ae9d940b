#!/usr/bin/env python3
"""Judges a log of fleet_poller, and reads nothing else. (tests/faults uses its parts: there the time in which a target has
to be polled again depends on what was done.)

A poll lasted at least from its start to its last line. So what is called an overlap here was one, also when a poller
was killed; and a poll that was killed between two lines is at most a beat longer than is known.

  fleet_check.py LOG check [--targets a,b] [--bound MS] [--late MS] [--polls N] [--takeovers N] [--from MARK] [--until MARK]
        [--terms N]
        no two polls of a target overlap, tokens never go down, a token belongs to one instance (one that is not ours, by
        the name of seed-..., has none, and no token lasts over its polls); and with --bound each of the targets is
        polled again within that time, from the mark (or its first poll) until the other mark (or the end). Marks named
        outage-begin / outage-end enclose times in which nobody can poll: they do not count. A holder that was hit by a
        fault (a mark named fault-...) before its first poll of the target left no line, but a token that is missing;
        the target then has the time once more. --late is by how much anything may have been late on a busy machine.
        With --terms each poll is a term: it has a token of its own, above all before it; and there are at least so many.
  fleet_check.py LOG takeover MARK INSTANCE
        of the targets whose last poll before the mark was of INSTANCE: prints their number, and the least and the
        greatest ms from the mark to their first poll by another (INSTANCE may be the beginning of an id)
  fleet_check.py LOG last MARK INSTANCE
        ms from the mark to the last line of INSTANCE (negative: before it)
"""
import sys
from collections import defaultdict


class Poll:
    def __init__(self, target, token, instance, start):
        self.token = 0 if token == "-" and instance.startswith("seed-") else int(token)
        self.target, self.instance = target, instance
        self.start = self.last = start
        self.ended = False


def read(path):
    polls, marks = {}, []
    with open(path, encoding="ascii") as log:
        for number, line in enumerate(log, 1):
            words = line.split()
            if len(words) != 6 or not line.endswith("\n"):
                raise SystemExit(f"{path}:{number}: not a line of the poller: {line!r}")
            at, poll, event, target, token, instance = int(words[0]), *words[1:]
            if event == "mark":
                marks.append((target, at))
            elif event == "start":
                polls[poll, target] = Poll(target, token, instance, at)
            else:
                known = polls[poll, target]
                known.last = max(known.last, at)
                known.ended = known.ended or event == "end"
    by_target = defaultdict(list)
    for poll in polls.values():
        by_target[poll.target].append(poll)
    for of_target in by_target.values():
        of_target.sort(key=lambda poll: poll.start)
    return by_target, marks


def mark_time(marks, name):
    times = [at for mark, at in marks if mark == name]
    if not times:
        raise SystemExit(f"there is no mark {name}")
    return times[-1]


def ms(us):
    return us // 1000 if us >= 0 else -(-us // 1000)


def outages_of(marks):
    result, begin = [], None
    for name, at in sorted(marks, key=lambda mark: mark[1]):
        if name == "outage-begin" and begin is None:
            begin = at
        elif name == "outage-end" and begin is not None:
            result.append((begin, at))
            begin = None
    return result


def counted(begin, end, outages):
    """The time from begin to end without the outages. One that it only touches is cut out whole."""
    return end - begin - sum(max(0, min(end, b) - max(begin, a)) for a, b in outages)


def conflicts(by_target, terms=False):
    """Overlaps, and tokens that are lower or shared; with how many polls there were, how many of them were cut short, and
    how many changes of hands."""
    problems = []
    takeovers = kills = count = 0
    for target, polls in by_target.items():
        owner, highest, least, open_poll = {}, 0, 0, None
        for poll in polls:
            count += 1
            kills += not poll.ended
            if open_poll and poll.start < open_poll.last:
                problems.append(
                    f"{target}: polled twice for {ms(min(poll.last, open_poll.last) - poll.start)} ms at "
                    f"{ms(poll.start)}: token {open_poll.token} of {open_poll.instance} since {ms(open_poll.start)}, "
                    f"token {poll.token} of {poll.instance}")
            if poll.token == 0:
                least = highest + 1
            elif poll.token < max(highest, least) or (terms and poll.token == highest):
                problems.append(f"{target}: token {poll.token} of {poll.instance} after {highest}")
            if poll.token and owner.setdefault(poll.token, poll.instance) != poll.instance:
                problems.append(f"{target}: token {poll.token} of both {owner[poll.token]} and {poll.instance}")
            takeovers += highest != 0 and poll.token > highest
            highest = max(highest, poll.token)
            if not open_poll or poll.last > open_poll.last:
                open_poll = poll
    return problems, count, kills, takeovers


def check(by_target, marks, options):
    problems, count, kills, takeovers = conflicts(by_target, "--terms" in options)
    longest = excused = 0
    if "--bound" in options:
        bound = (int(options["--bound"]) + int(options.get("--late", 0))) * 1000
        outages = outages_of(marks)
        end = mark_time(marks, options["--until"]) if "--until" in options else max(
            [poll.last for polls in by_target.values() for poll in polls] + [at for _, at in marks])
        for target in options.get("--targets", ",".join(by_target)).split(","):
            polls = by_target.get(target, [])
            if not polls:
                problems.append(f"{target}: never polled")
                continue
            begin = mark_time(marks, options["--from"]) if "--from" in options else polls[0].start
            # While a poll runs, the target is being polled.
            covered, token = begin, 0
            for poll in polls + [None]:
                start = min(poll.start, end) if poll else end
                if start > covered:
                    gap = counted(covered, start, outages)
                    longest = max(longest, gap)
                    hit = any(name.startswith("fault-") and covered - bound < at < start for name, at in marks)
                    missing = poll.token - token - 1 if poll and token and hit else 0
                    excused += gap > bound and missing > 0
                    if gap > bound * (1 + max(0, missing)):
                        problems.append(f"{target}: not polled for {ms(gap)} ms from {ms(covered)}, "
                                        f"which is over {options['--bound']}")
                if poll:
                    covered, token = max(covered, poll.last), poll.token
                if start >= end:
                    break
    for wanted, found, what in (("--polls", count, "polls"), ("--takeovers", takeovers, "changes of hands"),
                                ("--terms", count, "terms")):
        if found < int(options.get(wanted, 0)):
            problems.append(f"only {found} {what}, {options[wanted]} wanted: this run proves too little")
    print(f"{count} polls of {len(by_target)} targets, {kills} cut short, {takeovers} changes of hands"
          + (f", longest pause {ms(longest)} ms, {excused} over more than one holder" if "--bound" in options else ""))
    for problem in problems[:20]:
        print(problem)
    return 1 if problems else 0


def takeover(by_target, marks, name, instance):
    at = mark_time(marks, name)
    times = []
    for target, polls in by_target.items():
        before = [poll for poll in polls if poll.start < at]
        if not before or not before[-1].instance.startswith(instance):
            continue
        after = [poll.start for poll in polls if poll.start >= at and not poll.instance.startswith(instance)]
        times.append(ms(after[0] - at) if after else 10**9)
    print(len(times), min(times, default=0), max(times, default=0))
    return 0


def last(by_target, marks, name, instance):
    at = mark_time(marks, name)
    times = [poll.last for polls in by_target.values() for poll in polls if poll.instance.startswith(instance)]
    print(ms(max(times) - at) if times else "none")
    return 0


def main():
    by_target, marks = read(sys.argv[1])
    verb, rest = sys.argv[2], sys.argv[3:]
    if verb == "takeover":
        return takeover(by_target, marks, *rest)
    if verb == "last":
        return last(by_target, marks, *rest)
    return check(by_target, marks, dict(zip(rest[::2], rest[1::2])))


if __name__ == "__main__":
    sys.exit(main())
