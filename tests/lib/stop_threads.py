#!/usr/bin/env python3
"""Stops all threads of a process but its first one, for some time, and lets them go on. (SIGSTOP would stop them all.)

  stop_threads.py PID SECONDS [first]

With `first` it stops the first one only.

Prints how many, once they are stopped. A thread that is made meanwhile is not stopped.
"""
import ctypes
import os
import sys
import time

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
LIBC = ctypes.CDLL(None, use_errno=True)


def trace(request, thread):
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if LIBC.ptrace(request, thread, None, None) != 0:
        raise SystemExit(f"ptrace of thread {thread}: {os.strerror(ctypes.get_errno())}")


def main():
    pid, seconds = int(sys.argv[1]), float(sys.argv[2])
    first = sys.argv[3:] == ["first"]
    threads = [int(thread) for thread in os.listdir(f"/proc/{pid}/task") if (int(thread) == pid) == first]
    for thread in threads:
        trace(SEIZE, thread)
        trace(INTERRUPT, thread)
        os.waitpid(thread, 0x40000000)  # __WALL
    print(len(threads), flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        try:
            if first and os.waitpid(pid, 0x40000000 | os.WNOHANG)[0]:
                return 0  # it was killed; whoever is its parent learns of that only now
        except ChildProcessError:
            return 0
    for thread in threads:
        if os.path.exists(f"/proc/{pid}/task/{thread}"):
            trace(DETACH, thread)
    return 0 if threads else 1


sys.exit(main())
