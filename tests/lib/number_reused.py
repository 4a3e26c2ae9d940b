"""A poll ends by itself while its lease is uncertain, and a stranger gets its process number before the deadline.

    number_reused.py DIRECTORY

Runs in a PID namespace of its own, as root: there the kernel can be told which number is next. The store is the SQLite file
store.db in the directory, which is locked meanwhile, so that the lease is not renewed. Exits with 0 if the stranger is alive
after the end of the lease.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time

TTL_S = 6
ROUNDS = 5


def boot():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def poll_of(worker):
    """The process of the worker's poll, once it is the command."""
    with open(f"/proc/{worker}/task/{worker}/children", encoding="ascii") as file:
        for process in file.read().split():
            try:
                with open(f"/proc/{process}/comm", encoding="utf-8") as name:
                    if name.read().strip() == "sleep":
                        return int(process)
            except OSError:
                pass
    return None


def wait_for(what, seconds):
    end = boot() + seconds
    while boot() < end:
        found = what()
        if found:
            return found
        time.sleep(0.005)
    sys.exit("number_reused: waited in vain")


def worker_of(warden):
    with open(f"/proc/{warden}/task/{warden}/children", encoding="ascii") as file:
        words = file.read().split()
    return int(words[-1]) if words else None


def take_number(number):
    """A process with this number; None: another one has got it."""
    with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
        file.write(str(number - 1))
    child = os.fork()
    if child == 0:
        time.sleep(1000)
        os._exit(0)
    if child == number:
        return child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def try_once(directory, number_of_round):
    """True, False, or None if it came too late to show anything."""
    store = f"{directory}/store.db"
    command = [os.environ["TENURE"], "agent", "--store", f"sqlite:{store}", "--ttl", f"{TTL_S}s", "--renew", "500ms", "--name", "a"]
    command += ["--targets", f"file:{directory}/target", "--every", "1000s", "--timeout", "1000s", "--pid-namespace", "off"]
    with open(f"{directory}/target", "w", encoding="ascii") as file:
        file.write(f"t-{number_of_round}\n")
    with open(f"{directory}/agent.err", "ab") as log:
        agent = subprocess.Popen([*command, "--poll", "exec:exec sleep 3"], stderr=log)
    worker = wait_for(lambda: worker_of(agent.pid), 60)
    poll = wait_for(lambda: poll_of(worker), 60)
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 20000")
    connection.execute("BEGIN EXCLUSIVE")
    (ends_ms,) = connection.execute("SELECT max(ends_ms) FROM lease WHERE holder IS NOT NULL").fetchone()
    ends = ends_ms / 1000
    # It ends when a renewal has failed: its result is withheld, so that the agent goes on with it until the lease ends.
    wait_for(lambda: not os.path.exists(f"/proc/{poll}"), 60)
    stranger = take_number(poll)
    # The grace begins earlier than the end of the lease by the margin and itself.
    in_time = boot() < ends - TTL_S / 8 - TTL_S / 10
    while stranger and boot() < ends + 0.3:
        time.sleep(0.05)
    spared = stranger is not None and os.waitpid(stranger, os.WNOHANG)[0] == 0
    connection.close()
    agent.kill()
    agent.wait()
    if stranger and spared:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)
    return spared if in_time and stranger else None


def main():
    for number in range(ROUNDS):
        spared = try_once(sys.argv[1], number)
        if spared is not None:
            print("the stranger was spared" if spared else "the stranger was signalled")
            sys.exit(0 if spared else 1)
    sys.exit("number_reused: the machine is too busy")


main()
