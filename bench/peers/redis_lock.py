#!/usr/bin/python3
"""A resident candidate with redis-py's Lock, as its documentation uses it: acquire() that blocks and looks again
every 0.1 s, its default. While it leads it extends the lock at every third of the TTL.
Arguments: PORT KEY TTL_MS. See bench/elections_pair.h for what it reads and says."""
import select
import sys
import time

import redis


def say(word, ns):
    sys.stdout.write("%s %d\n" % (word, ns))
    sys.stdout.flush()


def lead(lock, ttl_s):
    """Until it is told to stop."""
    while not select.select([sys.stdin], [], [], ttl_s / 3)[0]:
        lock.reacquire()
    if not sys.stdin.readline():
        sys.exit(0)
    start_ns = time.monotonic_ns()
    lock.release()
    say("stopping", start_ns)


def main():
    port, key, ttl_s = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) / 1000
    lock = redis.Redis(port=port).lock(key, timeout=ttl_s)
    while sys.stdin.readline() == "campaign\n":
        lock.acquire()
        say("led", time.monotonic_ns())
        lead(lock, ttl_s)


main()
