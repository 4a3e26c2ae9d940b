"""Writes what became of a run: a page in Markdown, with the timeline beside it, the faults as JSON, and the ledgers of the
recorders if something in them is wrong. Called by faults.py."""
import collections
import datetime
import glob
import json
import os
import platform
import shutil
import statistics

import timeline
from harm import KINDS
from polls import name_of


def takeovers_of(fault, by_target):
    """ms from a host's fault until another polls what the host polled last."""
    times = []
    for polls in by_target.values():
        before = [poll for poll in polls if poll.start < fault.at_us]
        if not before or name_of(before[-1].instance) != fault.who:
            continue
        after = [poll.start for poll in polls if poll.start >= fault.at_us and poll.instance != before[-1].instance]
        times += [(after[0] - fault.at_us) // 1000] if after else []
    return times


def fault_rows(fired, by_target):
    kinds = collections.defaultdict(list)
    for fault in fired:
        kinds[fault.lane, fault.kind].append(fault)
    for (lane, kind), faults in sorted(kinds.items()):
        times = []
        if lane == "host" and KINDS[kind].displaces:
            times = [ms for fault in faults for ms in takeovers_of(fault, by_target)]
        lengths = [((fault.end_us or fault.at_us) - fault.at_us) / 1e6 for fault in faults]
        took = f"{statistics.median(times):.0f} / {max(times)} ms ({len(times)})" if times else "–"
        yield f"| {lane} | {kind} | {len(faults)} | {statistics.mean(lengths):.1f} s | {took} |"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{os.cpu_count()} × {model[0] if model else platform.machine()}, Linux {platform.release()}"


def page(run):
    polls, ledger = run.polls, run.ledger
    problems = run.problems()
    lines = [
        f"# Faults on {run.store.name}: " + ("nothing wrong was found" if not problems else f"{len(problems)} things are wrong"), "",
        f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC; {machine()}; TTL {run.settings.ttl_ms} ms; "
        f"{(run.end_us - run.begin_us) / 1e6:.0f} s with four hosts, {len(run.settings.targets)} targets, and the same load of the machine by "
        f"the servers. The same schedule again: `./dev faults --store {run.store.name} --seed {run.seed} --seconds {run.seconds:g}`.", "",
        "| checked | found | wanted |", "| --- | --- | --- |",
        f"| faults | {len(run.fired)} | {len(run.schedule)}, all that were planned |",
        f"| changes of hands | {polls.takeovers} | at least {run.takeovers_wanted()} |",
        f"| polls; of them cut short | {polls.polls}; {polls.cut_short} | at least {run.polls_wanted()} |",
        f"| two polls of a target at a time, lower or shared tokens | {len(polls.problems)} with the next row | 0 |",
        f"| longest time without a poll; of that not explained by a fault | {polls.longest_us / 1e6:.2f} s; "
        f"{polls.longest_counted_us / 1000:.0f} ms | {polls.bound_us / 1000:.0f} ms |",
        f"| operations whose history was checked; without an answer | {ledger.operations}; {ledger.unknown} | at least {run.operations_wanted()} |",
        f"| grants; refusals; believed at the same time as another, or not as of one lease | {ledger.grants}; {ledger.refusals}; "
        f"{len(ledger.problems)} | 0 |",
        f"| other | {len(run.engine_problems)} | 0 |", "",
        "![Who held which target, and what was done meanwhile](timeline.svg)", "",
        "| to | what | times | lasted, on average | another polled: median / longest (count) |", "| --- | --- | --- | --- | --- |",
        *fault_rows(run.fired, run.by_target), ""]
    if problems:
        lines += ["## What is wrong", "", "```", *problems[:60], "```", ""]
    return "\n".join(lines)


def write(run, directory):
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/report.md", "w", encoding="utf-8") as file:
        file.write(page(run))
    with open(f"{directory}/timeline.svg", "w", encoding="utf-8") as file:
        file.write(timeline.draw(f"{run.store.name}, seed {run.seed}: who held which target", run.hosts, run.by_target,
                                 run.fired, run.begin_us, run.end_us))
    with open(f"{directory}/faults.json", "w", encoding="utf-8") as file:
        for fault in run.fired:
            file.write(json.dumps(fault.as_json()) + "\n")
    shutil.rmtree(f"{directory}/ledgers", ignore_errors=True)
    if run.ledger.problems:
        os.mkdir(f"{directory}/ledgers")
        for path in glob.glob(f"{run.directory}/*.ledger"):
            shutil.copy(path, f"{directory}/ledgers")
