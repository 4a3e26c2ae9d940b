"""What the tests of `tenure serve` share: a private server, requests as they are written and as they come back, and
cases that print TAP. Only the standard library. TENURE is the program; its processes end with the test."""
import ctypes
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

TENURE = os.environ["TENURE"]
CASES = []
LIBC = ctypes.CDLL(None)


def case(sentence):
    def keep(function):
        CASES.append((sentence, function))
        return function
    return keep


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(token):
    return {"Authorization": "Bearer " + token}


def auth_file(directory, *lines):
    handle, path = tempfile.mkstemp(dir=directory)
    os.write(handle, ("\n".join(lines) + "\n").encode())
    os.close(handle)
    return path


def end_with_parent():
    LIBC.prctl(1, signal.SIGKILL)


class Server:
    """One `tenure serve`. `address` is host, port; of a socket its path."""

    def __init__(self, *options, listen="127.0.0.1:0", store=None, wait=True, env=None):
        self.directory = tempfile.mkdtemp(prefix="tenure-rest.")
        self.store = store or "sqlite:" + self.directory + "/leases.db"
        self.options = list(options)
        self.listen = listen
        self.env = env
        self.process = None
        self.start(wait)

    def start(self, wait=True):
        self.log = open(self.directory + "/log", "ab")
        self.process = subprocess.Popen(
            [TENURE, "serve", "--store", self.store, "--listen", self.listen, "--log-format", "json", *self.options],
            stdout=subprocess.PIPE, stderr=self.log, preexec_fn=end_with_parent, env=self.env)
        if not wait:
            return
        line = self.process.stdout.readline().decode().strip()
        assert line, "it does not start: " + self.said()
        if line.startswith("unix:"):
            self.address = line[5:]
        else:
            host, port = line.rsplit(":", 1)
            self.address = (host.strip("[]"), int(port))
            self.listen = line

    @property
    def url(self):
        return "http://%s:%d" % self.address

    def said(self):
        return open(self.directory + "/log", encoding="utf-8", errors="replace").read()

    def connect(self, timeout=60):
        if isinstance(self.address, str):
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(timeout)
            link.connect(self.address)
            return link
        return socket.create_connection(self.address, timeout)

    def ask(self, method, path, body=None, headers=None, timeout=60):
        """The status, the headers (names in lower case) and the body: JSON where it is, else text."""
        link = http.client.HTTPConnection("localhost", timeout=timeout)
        link.sock = self.connect(timeout)
        try:
            return ask_on(link, method, path, body, headers, self)
        finally:
            link.close()

    def raw(self, data, timeout=10, shut=False):
        """What comes back until it closes, or nothing comes for the time-out."""
        link = self.connect(timeout)
        try:
            try:
                link.sendall(data)
                if shut:
                    link.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return read_all(link)
        finally:
            link.close()

    def is_alive(self):
        return self.process.poll() is None

    def stop(self, sign=signal.SIGTERM, timeout=60):
        if self.is_alive():
            self.process.send_signal(sign)
        return self.process.wait(timeout)

    def remove(self):
        try:
            self.stop(timeout=3)  # what it has counted of its coverage is written at an orderly end
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind:
            print("# the server said: " + self.said()[-3000:].replace("\n", "\n# "))
        self.remove()


def read_all(link):
    answer = b""
    try:
        while True:
            more = link.recv(65536)
            if not more:
                break
            answer += more
    except (ConnectionError, socket.timeout):
        pass
    return answer


def ask_on(link, method, path, body=None, headers=None, server=None):
    sent = dict(headers or {})
    if server is not None and not isinstance(server.address, str):
        sent.setdefault("Host", "%s:%d" % server.address)
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    link.request(method, path, body, sent)
    answer = link.getresponse()
    text = answer.read()
    found = {}
    for name, value in answer.getheaders():
        found[name.lower()] = value
    if found.get("content-type", "").startswith("application/json") and text:
        return answer.status, found, json.loads(text)
    return answer.status, found, text.decode()


def refused(answer, status, code, *texts):
    """An error in its one form."""
    got, headers, body = answer
    assert got == status, (answer, "instead of", status)
    assert headers["content-type"] == "application/json", headers
    assert list(body) == ["error"], body
    assert body["error"]["code"] == code, (body, "instead of", code)
    assert isinstance(body["error"]["message"], str) and body["error"]["message"], body
    assert set(body["error"]) <= {"code", "message", "holder_id", "version", "remaining_ms"}, body
    for text in texts:
        assert text in body["error"]["message"], (body, "has no", text)
    return body["error"]


def is_time(text):
    return isinstance(text, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)


def stalled():
    """For how many seconds since the machine started some process had to wait for a processor, a disk or memory."""
    total = 0.0
    try:
        for what in ("cpu", "io", "memory"):
            with open("/proc/pressure/" + what, encoding="ascii") as file:
                total += int(file.readline().rsplit("=", 1)[1]) / 1e6
        with open("/proc/stat", encoding="ascii") as file:
            total += int(file.readline().split()[8]) / 100  # by the host of a virtual machine
        return total
    except OSError:  # this kernel does not tell
        return None


class Watch:
    """Measures real time. What is late by no more than the machine has kept processes waiting is not late."""

    def __init__(self):
        self.began, self.stalled = time.monotonic(), stalled()

    def late(self):
        return 20.0 if self.stalled is None else stalled() - self.stalled

    def below(self, seconds):
        took = time.monotonic() - self.began
        assert took < seconds + self.late(), "it took %.2f s instead of %.2f, and %.2f s may be due to others" % (
            took, seconds, self.late())


def until(seconds, what, found):
    """The seconds are what it takes at most on a machine that is not busy; there are at least sixty, for one that is."""
    end = time.monotonic() + max(seconds, 60)
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.03)
    raise AssertionError("this did not come true: " + what)


def main():
    os.environ.pop("TENURE_STORE", None)
    for name in [n for n in os.environ if n.startswith("TENURE_") and n != "TENURE_SOURCE"]:
        del os.environ[name]
    only = sys.argv[1:]
    failed = 0
    chosen = [c for c in CASES if not only or any(o in c[0] for o in only)]
    for number, (sentence, function) in enumerate(chosen, 1):
        began = time.monotonic()
        try:
            function()
            print("ok %d - %s" % (number, sentence), flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print("not ok %d - %s" % (number, sentence))
            print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
        if os.environ.get("REST_TIMES"):
            print("# %.2f s" % (time.monotonic() - began))
    print("1..%d" % len(chosen))
    sys.exit(1 if failed else 0)
