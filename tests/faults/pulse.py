"""Whether the machine ran evenly during a run: a thread that sleeps for a moment at a time and looks how late it wakes, how
many others want a processor, and whether the wall clock moved against the boot clock. Redis and PostgreSQL judge leases by
the wall clock: one that jumps forward ends them early, which docs/GUARANTEES.md excludes. Started by engine.py."""
import os
import threading
import time

from processes import boot_us

BEAT_S, LATE_US, JUMP_US, APART_US = 0.02, 100_000, 20_000, 1000
QUEUE = 4  # so many that want each processor are what the bounds in real time are made for
SLOWEST = 3.0  # a bound that grew further would no longer find anything


def read_clocks():
    """Both at the same moment: if something came between them, again."""
    while True:
        boot, wall = boot_us(), time.time_ns() // 1000
        if boot_us() - boot < APART_US:
            return boot, wall


def runnable():
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[3].split("/")[0])


class Pulse:
    def __init__(self, clocks=read_clocks, queue=runnable):
        self.clocks, self.queue, self.ended = clocks, queue, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.stalls = []    # (from, until), in which this thread should have run and did not
        self.jumps = []     # (when, by how much)
        self.queues = []    # (when, how many wanted a processor)
        self.last = None    # the clocks at the last beat

    def start(self):
        self.thread.start()

    def stop(self):
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()

    def run(self):
        self.beat()
        while not self.ended.wait(BEAT_S):
            self.beat()

    def beat(self):
        boot, wall = self.clocks()
        if self.last:
            last_boot, offset = self.last
            if boot - last_boot > LATE_US + BEAT_S * 1e6:
                self.stalls.append((last_boot, boot))
            if abs(wall - boot - offset) > JUMP_US:
                self.jumps.append((boot, wall - boot - offset))
        self.last = boot, wall - boot
        self.queues.append((boot, self.queue()))

    def slowness(self, from_us, until_us):
        """How many times longer than on a machine for which the bounds are made things may take: processors are shared
        evenly, so it grows with the number of those that want one."""
        seen = [count for at, count in self.queues if from_us <= at <= until_us]
        return min(SLOWEST, max(1.0, sum(seen) / len(seen) / (QUEUE * os.cpu_count()))) if seen else 1.0

    def circumstances(self):
        """For whoever reads that something is wrong."""
        lines = []
        slowness = self.slowness(0, self.last[0]) if self.last else 1
        if slowness > 1:
            lines.append(f"the machine was {slowness:.1f} times as busy as the bounds are made for")
        lines += [f"the wall clock jumped by {by // 1000} ms at {at // 1000}: servers may have ended leases early, or late"
                  for at, by in self.jumps]
        if self.stalls:
            begin, end = max(self.stalls, key=lambda stall: stall[1] - stall[0])
            lines.append(f"the machine stood still {len(self.stalls)} times, the longest for {(end - begin) // 1000} ms "
                         f"from {begin // 1000}")
        return lines
