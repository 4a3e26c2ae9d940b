#!/usr/bin/env python3
"""Makes a role change hands again and again: whoever leads is asked to resign as soon as its command has begun.

  elect_handoffs.py TENURE ROLE LOG COUNT [SECONDS]

The log is that of fleet_poller, which the commands write. (To end the commands would not do: a candidate whose command
exits again and again pauses.) Prints how many changes it has seen, and the median and the longest time of a change, from
asking to the start of the next command; fails when there were fewer than COUNT in time.
"""
import statistics
import subprocess
import sys
import time

STEP_S = 0.002


class Log:
    """The starts in a log that is being written."""
    def __init__(self, path):
        self.file, self.rest = open(path, "rb"), b""

    def starts(self):
        self.rest += self.file.read()
        *lines, self.rest = self.rest.split(b"\n")
        words = [line.decode().split() for line in lines]
        return [(int(line[4]), line[5]) for line in words if line[2] == "start"]


def main():
    tenure, role, path, count = *sys.argv[1:4], int(sys.argv[4])
    end = time.monotonic() + (float(sys.argv[5]) if len(sys.argv) > 5 else 120)
    log, token, changes, times = Log(path), 0, 0, []
    asked = time.monotonic()
    while changes < count and time.monotonic() < end:
        starts = log.starts()
        if not starts:
            time.sleep(STEP_S)
            continue
        if token:
            changes += len(starts)
            times.append(time.monotonic() - asked)
        token, instance = starts[-1]
        asked = time.monotonic()
        subprocess.run([tenure, "resign", role, "--from", instance, "--log-level", "error"], check=True,
                       stderr=subprocess.DEVNULL)
    print(f"{changes} changes of hands; median {statistics.median(times or [0]) * 1000:.1f} ms, "
          f"longest {max(times or [0]) * 1000:.1f} ms")
    return 0 if changes >= count else 1


sys.exit(main())
