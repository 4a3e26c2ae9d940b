#!/usr/bin/env python3
"""Every principal misbehaves at once, beside a fleet that only wants to keep its leases. Prints TAP.

    hostile.py --tenure PROGRAM [--seconds N] [--agents N] [--ttl MS]

A private `tenure serve` with an auth file: a fleet of agents works through it with a token of its own, while clients of every
other role, and some without a token, take all that they can get: bodies that do not end, answers that are not taken,
connections and event streams that are hoarded, invented namespaces, metadata and JSON that want to become large, floods of
batches and listings. A second fleet of the same size works through a server that nobody attacks, at the same time on the same
machine: what both fleets suffer is the machine's doing. Then it is judged: no lease lost, unless the second fleet lost some,
too; the 99th percentile of a renewal at most TTL / 6 above that of the second server; the server's memory below 256 MiB; and
that the attacks were refused something, so that they were attacks.
"""
import argparse
import ctypes
import hashlib
import http.client
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

MIB = 1024 * 1024
MEMORY_MAX_MIB = 256
TOKENS = {"fleet": "the-token-of-the-fleet", "setup": "the-token-of-the-setup", "eye": "the-token-of-the-eye",
          "hand": "the-token-of-the-hand", "chief": "the-token-of-the-chief"}
ROLES = {"fleet": "hold fleet *", "setup": "admin * *", "eye": "read * *", "hand": "hold * evil-*", "chief": "admin evil* *"}
LIBC = ctypes.CDLL(None)


class TTL:
    ms = 6000


def end_with_parent():
    LIBC.prctl(1, signal.SIGKILL)


# ---- the server and its fleet

class Server:
    def __init__(self, program, directory, name):
        self.directory = directory + "/" + name
        os.mkdir(self.directory)
        auth = self.directory + "/auth"
        with open(auth, "w", encoding="ascii") as file:
            for principal, token in TOKENS.items():
                file.write("%s %s %s\n" % (principal, ROLES[principal], hashlib.sha256(token.encode()).hexdigest()))
        self.log = self.directory + "/log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [program, "serve", "--store", "sqlite:" + self.directory + "/leases.db", "--listen", "127.0.0.1:0",
                 "--auth-file", auth, "--log-format", "json"],
                stdout=subprocess.PIPE, stderr=log, preexec_fn=end_with_parent)
        line = self.process.stdout.readline().decode().strip()
        if not line:
            raise RuntimeError("the server does not start: " + self.said())
        self.address = ("127.0.0.1", int(line.rsplit(":", 1)[1]))

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def ask(self, method, path, body=None, who="setup", timeout=60):
        link = http.client.HTTPConnection(*self.address, timeout=timeout)
        try:
            return ask_on(link, method, path, body, who)
        finally:
            link.close()

    def insist(self, *request):
        """Asks again while it is refused: on a busy machine also who prepares the attack may have used its time."""
        end = time.monotonic() + 60
        status, said = self.ask(*request)
        while status == 429 and time.monotonic() < end:
            time.sleep(1)
            status, said = self.ask(*request)
        assert status == 200, said
        return said

    def memory_mib(self):
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as file:
            return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM"))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def ask_on(link, method, path, body=None, who=None):
    headers = {"Authorization": "Bearer " + TOKENS[who]} if who else {}
    link.request(method, path, json.dumps(body) if isinstance(body, (dict, list)) else body, headers)
    answer = link.getresponse()
    text = answer.read()
    kind = answer.getheader("Content-Type") or ""
    return answer.status, json.loads(text) if kind.startswith("application/json") and text else text


class Fleet:
    def __init__(self, program, server, agents, targets):
        token = server.directory + "/token"
        with open(token, "w", encoding="ascii") as file:
            file.write(TOKENS["fleet"] + "\n")
        os.chmod(token, 0o600)
        self.server, self.targets = server, targets
        edits = [{"action": "put", "target": {"id": "t%03d" % i}} for i in range(targets)]
        server.insist("POST", "/api/v1/fleet", {"edits": edits})
        url = "http://127.0.0.1:%d?token_file=%s" % (server.address[1], token)
        self.logs = [server.directory + "/agent%d" % i for i in range(agents)]
        self.agents = []
        for i, path in enumerate(self.logs):
            with open(path, "wb") as log:
                self.agents.append(subprocess.Popen(  # pylint: disable=consider-using-with
                    [program, "agent", "--name", "agent%d" % i, "--namespace", "fleet", "--ttl", "%dms" % TTL.ms, "--targets",
                     "store", "--poll", "exec:true", "--every", "30s", "--store", url, "--log-format", "json"],
                    stdout=subprocess.DEVNULL, stderr=log, preexec_fn=end_with_parent))

    def holders(self):
        status, rows = self.server.ask("GET", "/api/v1/fleet?limit=1000", None, "fleet")
        held = [row for row in rows if row["holder_id"] and row["registered"]] if status == 200 else []
        return {row["id"]: row["holder_id"] for row in held}

    def settle(self):
        end = time.monotonic() + 180
        last, since = None, time.monotonic()
        while time.monotonic() < end:
            holders = self.holders()
            if holders != last:
                last, since = holders, time.monotonic()
            if len(holders) == self.targets and len(set(holders.values())) == len(self.agents) and \
                    time.monotonic() - since > 3:
                return
            time.sleep(0.2)
        raise RuntimeError("the fleet did not share its targets out: %r" % last)

    def events(self, *names):
        found = []
        for path in self.logs:
            with open(path, encoding="utf-8", errors="replace") as file:
                found += [line.strip() for line in file if any('"event":"%s"' % name in line for name in names)]
        return found

    def end(self):
        for agent in self.agents:
            agent.send_signal(signal.SIGTERM)
        for agent in self.agents:
            try:
                agent.wait(30)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()


# ---- those who misbehave; each is a process, and ends by itself

class Counts(dict):
    def add(self, what):
        self[what] = self.get(what, 0) + 1


def connect(address, window=0, timeout=5):
    link = socket.socket()
    if window:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    link.settimeout(timeout)
    link.connect(address)
    return link


def head(method, path, who, size=0):
    token = "Authorization: Bearer %s\r\n" % TOKENS[who] if who else ""
    return ("%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (method, path, token, size)).encode()


def status_of(text):
    found = re.match(rb"HTTP/1.1 (\d+)", text)
    return int(found.group(1)) if found else 0


def look(link, counts):
    """Counts the status of an answer, if one has come, without reading more of it than that."""
    link.setblocking(False)
    try:
        text = link.recv(16)
        if not text or status_of(text):
            counts.add(status_of(text) or "closed")
        return bool(text)
    except BlockingIOError:
        return True
    except OSError:
        counts.add("closed")
        return False
    finally:
        link.settimeout(5)


def hoard(address, end, counts, number, open_one):
    """Keeps so many connections; those that the server closes are opened anew."""
    links = []
    while time.monotonic() < end:
        try:
            if len(links) < number:
                links.append(open_one(len(links)))
                if len(links) % 20:
                    continue
        except OSError:
            counts.add("closed")
        kept = []
        for link in links:
            if look(link, counts):
                kept.append(link)
            else:
                link.close()
        links = kept
        time.sleep(0.05)


def slow_bodies(address, end, counts, who):
    def open_one(_):
        link = connect(address)
        link.sendall(head("POST", "/api/v1/evil/leases", who, MIB) + b"{" + b" " * 50000)
        return link
    hoard(address, end, counts, 150, open_one)


def unread_answers(address, end, counts, who):
    def open_one(_):
        link = connect(address, 2048)
        link.sendall(head("GET", "/api/v1/evil-large?limit=10000", who))
        return link
    hoard(address, end, counts, 60, open_one)


def hoarded_connections(address, end, counts, who):
    def open_one(number):
        link = socket.socket()
        link.settimeout(5)
        link.bind(("127.0.0.%d" % (2 + number // 200), 0))
        link.connect(address)
        link.sendall(head("GET", "/api/v1/evil/t/lease" if who else "/healthz", who))
        return link
    hoard(address, end, counts, 1200, open_one)


def hoarded_streams(address, end, counts, who):
    def open_one(number):
        link = connect(address, 2048)
        link.sendall(head("GET", "/api/v1/evil-%d/events" % (number % 100 if number % 2 else 0), who))
        return link
    hoard(address, end, counts, 600, open_one)


def old_streams(address, end, counts, who):
    """Readers that want all that there was, and read it; then again."""
    while time.monotonic() < end:
        try:
            with connect(address) as link:
                link.sendall(head("GET", "/api/v1/evil-0/events?last_event_id=0", who))
                counts.add(status_of(link.recv(65536)))
                while link.recv(65536) and time.monotonic() < end:
                    pass
        except OSError:
            counts.add("closed")


def flood(address, end, counts, who, make, pause=0.002):
    """Requests one after the other, as fast as they are answered."""
    link, number = None, 0
    while time.monotonic() < end:
        number += 1
        try:
            link = link or http.client.HTTPConnection(*address, timeout=10)
            status, _ = ask_on(link, *make(number), who)
            counts.add(status)
        except (OSError, http.client.HTTPException):
            counts.add("closed")
            link.close()
            link = None
        time.sleep(pause)


def namespaces(number):
    return "PUT", "/api/v1/evil-%d/nodes/evil-1" % number, {"ttl_ms": 60000}


def metadata(number):
    op = {"op": "announce", "ttl_ms": 60000, "weight": 1, "metadata": "m" * 900000}
    return "POST", "/api/v1/fleet/leases", {"holder_id": "evil-%d" % number, "ops": [op]}


def bombs(number):
    text = '{"holder_id":"x","ops":[{"op":"read","id":"t%d"}],"junk":[{}' % number
    return "POST", "/api/v1/evil/leases", text + ",{}" * ((MIB - len(text) - 2) // 3) + "]}"


def acquires(number):
    ops = [{"op": "acquire", "id": "t%d-%d" % (number % 20, i), "ttl_ms": 60000} for i in range(1000)]
    return "POST", "/api/v1/evil/leases", {"holder_id": "evil-%d" % (number % 7), "ops": ops}


def renewals(number):
    ops = [{"op": "renew", "id": "t%d" % i, "version": 1} for i in range(1000)]
    return "POST", "/api/v1/evil/leases", {"holder_id": "evil-%d" % (number % 7), "ops": ops}


def forgeries(number):
    ops = [{"op": "renew", "id": "f%d" % i, "version": 1000000 + number, "ttl_ms": 86400000} for i in range(100)]
    return "POST", "/api/v1/evil/leases", {"holder_id": "evil-%d" % (number % 7), "ops": ops}


def checkpoints(_):
    """The largest answers that there are; each character is written as six."""
    ops = [{"op": "read_checkpoint", "id": "c%d" % (i % 16)} for i in range(160)]
    return "POST", "/api/v1/evil/leases", {"holder_id": "x", "ops": ops}


def granted_checkpoints(_):
    ops = [{"op": "acquire_checkpoint", "id": "c%d" % (i % 16), "ttl_ms": 600000} for i in range(160)]
    return "POST", "/api/v1/evil/leases", {"holder_id": "evil-keeper", "ops": ops}


def edits(number):
    return "POST", "/api/v1/evil-0", {"edits": [
        {"action": "put" if number % 2 else "remove", "target": {"id": "e%d" % i}} for i in range(1000)]}


def listings(number):
    return "GET", "/api/v1/evil-large/nodes?plan=true" if number % 2 else "/api/v1/evil-large?limit=10000", None


def readiness(_):
    return "GET", "/readyz", None


def denied(_):
    return "POST", "/api/v1/fleet/leases", "x" * 60000


ATTACKS = [("slow bodies of a reader", slow_bodies, "eye"), ("slow bodies of a holder", slow_bodies, "hand"),
           ("answers that are not taken", unread_answers, "eye"), ("answers that an admin does not take", unread_answers, "chief"),
           ("connections without a token", hoarded_connections, None), ("connections of a reader", hoarded_connections, "eye"),
           ("event streams", hoarded_streams, "eye"), ("event streams from the beginning", old_streams, "eye")]
FLOODS = [("invented namespaces", namespaces, "hand"), ("giant metadata", metadata, "hand"), ("JSON that grows", bombs, "eye"),
          ("acquires", acquires, "hand"), ("renewals", renewals, "hand"),
          ("renewals that were never granted", forgeries, "chief"), ("edits", edits, "chief"), ("listings", listings, "eye"),
          ("checkpoints", checkpoints, "eye"), ("checkpoints of a holder", granted_checkpoints, "hand"),
          ("/readyz", readiness, None), ("requests without a token", denied, None)]


def misbehave(function, address, end, who, make, results, name):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    os.nice(5)  # what is measured is the server, not who gets the processor
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    counts = Counts()
    if make:
        flood(address, end, counts, who, make)
    else:
        function(address, end, counts, who)
    results.put((name, dict(counts)))


# ---- what a renewal takes

def renew_often(address, ready, stop, results, name):
    """Renews a lease of its own ten times a second, on a connection that it keeps."""
    end_with_parent()
    link = http.client.HTTPConnection(*address, timeout=TTL.ms / 1000)
    op = {"op": "acquire", "id": "probe", "ttl_ms": TTL.ms}
    status, said = ask_on(link, "POST", "/api/v1/fleet/leases", {"holder_id": "probe", "ops": [op]}, "fleet")
    assert status == 200 and said[0]["outcome"] == "ok", said
    body = {"holder_id": "probe", "ops": [{"op": "renew", "id": "probe", "version": said[0]["version"], "ttl_ms": TTL.ms}]}
    times, wrong = [], []
    ready.set()
    while not stop.is_set():
        began = time.monotonic()
        try:
            status, said = ask_on(link, "POST", "/api/v1/fleet/leases", body, "fleet")
            if status != 200 or said[0]["outcome"] != "ok":
                wrong.append("%s %r" % (status, said))
        except (OSError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            link.close()
        times.append(time.monotonic() - began)
        time.sleep(0.1)
    results.put((name, times, wrong))


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


# ---- the run

class Run:
    def __init__(self, options):
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="tenure-hostile.")
        self.server = Server(options.tenure, self.directory, "attacked")
        self.quiet = Server(options.tenure, self.directory, "quiet")
        self.fleet = self.control = None
        self.problems, self.notes, self.counts = [], [], {}

    def prepare(self):
        for first in range(4):
            rows = [{"action": "put", "target": {"id": "%d-%d" % (first, i), "spec": "x" * 9000}} for i in range(110)]
            self.server.insist("POST", "/api/v1/evil-large", {"edits": rows})
        ops = [{"op": "acquire", "id": "c%d" % i, "ttl_ms": 600000} for i in range(16)]
        said = self.server.insist("POST", "/api/v1/evil/leases", {"holder_id": "evil-keeper", "ops": ops}, "hand")
        ops = [{"op": "checkpoint", "id": found["id"], "version": found["version"], "value": "\x01" * 4096} for found in said]
        said = self.server.insist("POST", "/api/v1/evil/leases", {"holder_id": "evil-keeper", "ops": ops}, "hand")
        assert {found["outcome"] for found in said} == {"ok"}, said
        self.fleet, self.control = (Fleet(self.options.tenure, server, self.options.agents, self.options.agents * 2)
                                    for server in (self.server, self.quiet))
        self.fleet.settle()
        self.control.settle()

    def carry_out(self):
        results, times = multiprocessing.Queue(), multiprocessing.Queue()
        stop = multiprocessing.Event()
        probes = []
        for name, server in (("attacked", self.server), ("quiet", self.quiet)):
            ready = multiprocessing.Event()
            probes.append(multiprocessing.Process(target=renew_often, args=(server.address, ready, stop, times, name)))
            probes[-1].start()
            assert ready.wait(60), "the probe does not get its lease"
        end = time.monotonic() + self.options.seconds
        attackers = [multiprocessing.Process(target=misbehave,
                                             args=(function, self.server.address, end, who, None, results, name))
                     for name, function, who in ATTACKS]
        attackers += [multiprocessing.Process(target=misbehave,
                                              args=(None, self.server.address, end, who, make, results, name))
                      for name, make, who in FLOODS]
        for each in attackers:
            each.start()
        for _ in attackers:
            name, counts = results.get(timeout=self.options.seconds + 120)
            self.counts[name] = counts
        for each in attackers:
            each.join()
        stop.set()
        taken, failed = {}, {}
        for _ in probes:
            name, taken_by, wrong = times.get(timeout=60)
            taken[name], failed[name] = taken_by, wrong
        for each in probes:
            each.join()
        self.judge(taken, failed)

    def judge_losses(self, failed):
        lost, beside = (["a renewal failed: " + text for text in failed[name]] +
                        ["a lease was lost: " + line for line in fleet.events("lease_lost")]
                        for name, fleet in (("attacked", self.fleet), ("quiet", self.control)))
        if beside:
            self.notes += ["not judged, since the fleet of the server left alone lost %d: %s" % (len(beside), text)
                           for text in lost[:5]]
        else:
            self.problems += lost[:5]

    def judge(self, taken, failed):
        self.judge_losses(failed)
        holders = self.fleet.holders()
        if len(holders) != self.fleet.targets:
            self.problems.append("only %d of %d targets are held" % (len(holders), self.fleet.targets))
        # Nobody may keep newcomers out either.
        op = {"op": "acquire", "id": "newcomer", "ttl_ms": TTL.ms}
        status, said = self.server.ask("POST", "/api/v1/fleet/leases", {"holder_id": "newcomer", "ops": [op]}, "fleet")
        if status != 200 or said[0]["outcome"] != "ok":
            self.problems.append("a newcomer is not let in: %s %r" % (status, said))
        # Of few renewals one that the machine was late with would decide.
        part = 0.99 if len(taken["attacked"]) >= 200 else 0.9
        late, beside = percentile(taken["attacked"], part), percentile(taken["quiet"], part)
        if late > TTL.ms / 6000 + beside:
            self.problems.append("percentile %d of renewals took %.3f s, above %.3f s" %
                                 (part * 100, late, TTL.ms / 6000 + beside))
        memory = self.server.memory_mib()
        with open(self.options.tenure, "rb") as file:
            sanitized = b"__asan_init" in file.read()  # it keeps what was freed
        if memory >= MEMORY_MAX_MIB and not sanitized:
            self.problems.append("the server used %d MiB" % memory)
        if self.server.process.poll() is not None:
            self.problems.append("the server has ended")
        for name, counts in sorted(self.counts.items()):
            self.notes.append("%s: %s" % (name, ", ".join("%s %d" % pair for pair in sorted(counts.items(), key=str))))
        refused = sum(counts.get(429, 0) for counts in self.counts.values())
        if refused == 0:
            self.problems.append("nothing was refused: these were no attacks")
        self.notes.append("%d renewals: p50 %.1f ms, p%d %.1f ms (a server that was left alone: %.1f ms); memory %d MiB; "
                          "%d failed renewals of agents (of the server left alone: %d)" %
                          (len(taken["attacked"]), percentile(taken["attacked"], 0.5) * 1e3, part * 100, late * 1e3,
                           beside * 1e3, memory, len(self.fleet.events("lease_renew_failed")),
                           len(self.control.events("lease_renew_failed"))))
        self.notes += self.fleet.events("lease_renew_failed")[:3]
        lines = sum("limit_reached" in line for line in self.server.said().splitlines())
        if lines > 20 + self.options.seconds * 2:
            self.problems.append("the server logged %d lines about limits" % lines)

    def end(self):
        for fleet in (self.fleet, self.control):
            if fleet:
                fleet.end()
        self.server.end()
        self.quiet.end()
        if self.problems and os.environ.get("TENURE_FAULTS_KEEP"):
            self.notes.append("its files are in " + self.directory)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenure", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--ttl", type=int, default=TTL.ms)
    options = parser.parse_args()
    TTL.ms = options.ttl
    for name in [n for n in os.environ if n.startswith("TENURE_") and n != "TENURE_FAULTS_KEEP"]:
        del os.environ[name]
    run = Run(options)
    try:
        run.prepare()
        run.carry_out()
    except Exception as error:  # pylint: disable=broad-except
        run.problems.append("the run came to nothing: %r" % error)
    finally:
        run.end()
    print("%s 1 - %g seconds of clients that take all they can get cost a fleet of %d no lease" %
          ("not ok" if run.problems else "ok", options.seconds, options.agents))
    for line in run.notes + run.problems:
        print("# " + line)
    print("1..1")
    sys.exit(1 if run.problems else 0)


if __name__ == "__main__":
    main()
