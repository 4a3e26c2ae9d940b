"""Watches the processes of many polls until they are gone, and says when that was, against the ends of their leases.

    polls_watch.py WORKER COUNT FILE stop|lock [alone]

Waits until the worker has COUNT polls running, each the program `sleep`. Then it stops the worker, or locks the SQLite file
that is the store. With `alone`, warden and polls have the priority of real-time programs meanwhile, so that other work on
the machine does not count. Prints a line of JSON:

    polls, processes   how many there were
    alive              polls that were alive after the end of their lease, by more than this machine kept processes waiting
    left               processes that were still there at the end
    stalled_ms         for how long the machine kept some process waiting meanwhile
    before_end_ms      the least time from the end of a poll to the end of its lease; negative: after it
    cpu_ms             processor time that the warden and the worker took meanwhile

Exits with 0 if nothing was alive or left, and the processor time is no more than a millisecond a poll: whoever needs more than
that ends thousands of polls too late, which a busy machine would excuse. A poll counts as alive at a moment if the clock was read before its process was seen
to run: a busy machine makes the watch late, but never accuses anybody.
"""

import json
import os
import select
import signal
import sqlite3
import sys
import time


LOOK_S = 0.01


def boot():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def stalled_ms():
    """For how long since the machine started some process had to wait; as stalled_ms in tap.sh."""
    total = 0.0
    try:
        for what in ("cpu", "io", "memory"):
            with open(f"/proc/pressure/{what}", encoding="ascii") as file:
                total += int(file.readline().rsplit("=", 1)[1]) / 1000
        with open("/proc/stat", encoding="ascii") as file:
            total += int(file.readline().split()[8]) * 10
    except OSError:
        return None
    return total


def children(process):
    found = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def target_of(process):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            for variable in file.read().split(b"\0"):
                if variable.startswith(b"TENURE_TARGET="):
                    return variable[14:].decode()
    except OSError:
        pass
    return None


def is_command(process):
    """Not the worker's copy any more, nor the shell on its way to the command."""
    try:
        with open(f"/proc/{process}/comm", encoding="utf-8") as file:
            return file.read().strip() == "sleep"
    except OSError:
        return False


def find_polls(worker):
    """{target: its processes}, of the polls whose command runs."""
    polls = {}
    for child in children(worker):
        processes = [child, *children(child)]
        if is_command(processes[-1]):
            target = target_of(processes[-1])
            if target:
                polls[target] = processes
    return polls


def wait_for_polls(worker, count):
    end = boot() + 120
    while boot() < end:
        if len(children(worker)) >= count:
            polls = find_polls(worker)
            if len(polls) >= count:
                return polls
        time.sleep(0.2)
    sys.exit(f"polls_watch: {len(find_polls(worker))} of {count} polls run")


def ends_of_leases(connection):
    """{target: when its lease ends}, on the clock by which the store judges that."""
    rows = connection.execute("SELECT target, ends_ms FROM lease WHERE holder IS NOT NULL")
    return {target: ends_ms / 1000 for target, ends_ms in rows}


class Watch:
    def __init__(self, polls):
        self.epoll = select.epoll()
        self.left = {}  # descriptor: target
        self.before = 0.0  # when the last look was
        self.alive = {}  # target: when it was last seen alive
        self.gone = {}  # target: when the last of its processes was seen to be gone
        for target, processes in polls.items():
            for process in processes:
                try:
                    descriptor = os.pidfd_open(process)
                except ProcessLookupError:
                    continue
                self.left[descriptor] = target
                self.epoll.register(descriptor, select.EPOLLIN)

    def look(self):
        """Returns the moment of the look, at which all that are left were there. It is cheap, because those who end need the
        processors: what was seen alive is noted when it is gone."""
        time.sleep(LOOK_S)
        now = boot()
        for descriptor, _ in self.epoll.poll(0, len(self.left)):
            self.epoll.unregister(descriptor)
            os.close(descriptor)
            target = self.left.pop(descriptor)
            self.alive[target] = self.before
            self.gone[target] = now
        self.before = now
        return now

    def close(self):
        for target in self.left.values():
            self.alive[target] = self.before


def freeze(process):
    os.kill(process, signal.SIGSTOP)
    for thread in os.listdir(f"/proc/{process}/task"):
        while True:
            with open(f"/proc/{process}/task/{thread}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "tTZX":
                    break
            time.sleep(0.005)


def cpu_ms(process):
    """0: it is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            words = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def parent_of(process):
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def bring_about(what, worker, path):
    """Returns when the leases end that nobody renews from now on, and what to close at the end."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 20000")
    if what == "stop":
        freeze(worker)
    else:
        connection.execute("BEGIN EXCLUSIVE")
    return ends_of_leases(connection), connection


def watch_until_gone(watch, last, stalled):
    """Until all are gone, or the leases have ended for longer than the machine kept anybody waiting."""
    while watch.left:
        now = watch.look()
        if now > last + 2 + stalled() / 1000:
            break
    watch.close()


def go_first():
    """Thousands of processes that end together would keep the watch waiting, and with it the times that it notes."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        pass


def let_go_first(processes):
    for process in processes:
        try:
            os.sched_setscheduler(process, os.SCHED_RR, os.sched_param(1))
        except (PermissionError, ProcessLookupError):
            pass


def main():
    worker, count, path, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    polls = wait_for_polls(worker, count)
    watch = Watch(polls)
    warden = parent_of(worker)
    if "alone" in sys.argv[5:]:
        let_go_first([warden, *(process for processes in polls.values() for process in processes)])
    go_first()
    before_ms = stalled_ms()
    used_ms = cpu_ms(warden) + cpu_ms(worker)

    def stalled():
        return 20000 if before_ms is None else stalled_ms() - before_ms

    ends, connection = bring_about(what, worker, path)
    watch_until_gone(watch, max(ends.values()), stalled)
    used_ms = cpu_ms(warden) + cpu_ms(worker) - used_ms
    connection.close()
    late_ms = stalled()
    alive = [target for target, seen in watch.alive.items() if seen > ends[target] + late_ms / 1000]
    result = {
        "polls": len(polls),
        "processes": sum(len(processes) for processes in polls.values()),
        "alive": len(alive),
        "left": len(watch.left),
        "stalled_ms": round(late_ms),
        "cpu_ms": used_ms,
        # Of the poll that was nearest to the end of its lease, or went furthest beyond.
        "before_end_ms": round(1000 * min(ends[target] - seen for target, seen in watch.gone.items())) if watch.gone else None,
    }
    print(json.dumps(result))
    sys.exit(1 if alive or watch.left or used_ms > len(polls) else 0)


main()
