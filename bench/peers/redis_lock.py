#!/usr/bin/python3
"""A resident candidate with redis-py's Lock, as its documentation uses it: acquire() that blocks and looks again
every 0.1 s, its default. While it leads a thread extends the lock at every third of the TTL, and ends the program
when it cannot.
Arguments: PORT KEY TTL_MS [FILE]. See bench/elections_pair.h for what it reads and says."""
import os
import select
import sys
import threading
import time

import redis

BEAT_S = 0.004
MANY = 4  # threads, each with a connection and a lock of its own: more are no faster


def say(*words):
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


class Reader:
    """Lines, without a buffer that select() does not see."""

    def line(self):
        got = b""
        while not got.endswith(b"\n"):
            byte = os.read(0, 1)
            if not byte:
                sys.exit(0)
            got += byte
        return got.decode().split()


def keep(lock, ttl_s, stopped):
    while not stopped.wait(ttl_s / 3):
        try:
            lock.reacquire()
        except redis.exceptions.RedisError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)


def lead(lock, ttl_s, beats):
    """Until there is something to read."""
    stopped = threading.Event()
    keeper = threading.Thread(target=keep, args=(lock, ttl_s, stopped))
    keeper.start()
    while not select.select([0], [], [], BEAT_S if beats is not None else None)[0]:
        os.write(beats, b"%d %d\n" % (time.monotonic_ns(), os.getpid()))
    stopped.set()
    keeper.join()


def run(step, seconds):
    samples = []
    start = last = time.monotonic()
    while last - start < seconds:
        step()
        now = time.monotonic()
        samples.append(now - last)
        last = now
    return samples


def do(step, ms):
    cpu = time.process_time()
    samples = sorted(run(step, ms / 1000))
    us = (time.process_time() - cpu) * 1e6
    say("did", len(samples), round(us), round(samples[len(samples) // 2] * 1e6, 1),
        round(samples[(len(samples) - 1) * 99 // 100] * 1e6, 1))


def do_many(make_lock, ms):
    cpu = time.process_time()
    counts = []

    def work(number):
        lock = make_lock("many-%d" % number)
        lock.acquire()
        counts.append(len(run(lock.reacquire, ms / 1000)))
        lock.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("did", sum(counts), round((time.process_time() - cpu) * 1e6), 0, 0)


def main():
    port, key, ttl_s = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) / 1000
    beats = os.open(sys.argv[4], os.O_WRONLY | os.O_CREAT | os.O_APPEND) if len(sys.argv) > 4 else None
    reader = Reader()

    def make_lock(suffix):
        return redis.Redis(port=port).lock(key + suffix, timeout=ttl_s, thread_local=False)

    def pair():
        other.acquire()
        other.release()

    lock, other = make_lock(""), make_lock("-job")
    while True:
        words = reader.line()
        if words[0] == "campaign":
            lock.acquire()
            say("led", time.monotonic_ns())
            lead(lock, ttl_s, beats)
        elif words[0] == "stop":
            start_ns = time.monotonic_ns()
            lock.release()
            say("stopping", start_ns)
        elif words[0] == "pairs":
            do(pair, int(words[1]))
        elif words[0] == "renew":
            other.acquire()
            do(other.reacquire, int(words[1]))
            other.release()
        else:
            do_many(make_lock, int(words[1]))


main()
