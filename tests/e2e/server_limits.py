"""`tenure serve` under pressure and at its borders: slow and silent clients, event streams, its end, sockets, TLS, who
may do what. Run by server_limits.sh."""
import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["TENURE_SOURCE"] + "/tests/lib")
from rest import TENURE, Server, Watch, ask_on, auth_file, bearer, case, digest, main, refused, until  # noqa: E402  pylint: disable=wrong-import-position

WORK = tempfile.TemporaryDirectory(prefix="tenure-limits.")


def prepare(server, ns="n", target="t", holder="a", ttl_ms=600000):
    assert server.ask("PUT", "/api/v1/%s/%s" % (ns, target))[0] in (200, 201)
    assert server.ask("POST", "/api/v1/%s/%s/lease" % (ns, target), {"holder_id": holder, "ttl_ms": ttl_ms})[0] == 201


RENEW = "/api/v1/n/t/lease/renew"
OWNER = {"holder_id": "a"}


class Stream:
    """An event stream, read by a thread: events as (id, event, data), and how many comments."""

    def __init__(self, server, ns="n", last=None, query=""):
        headers = "" if last is None else "Last-Event-ID: %s\r\n" % last
        self.link = server.connect()
        self.link.settimeout(60)
        self.link.sendall(("GET /api/v1/%s/events%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (ns, query, headers)).encode())
        self.events, self.comments, self.ended, self.head = [], 0, False, b""
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        answer = http.client.HTTPResponse(self.link)
        try:
            answer.begin()
            self.head = answer.headers
            event = {}
            for line in answer:
                line = line.decode().rstrip("\n")
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, value = line.split(": ", 1)
                    event[name] = value
                elif event:
                    self.events.append((int(event["id"]), event["event"], json.loads(event["data"])))
                    event = {}
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.ended = True

    def ready(self):
        until(10, "the stream is open", lambda: self.comments > 0 or self.ended)
        return self

    def kinds(self):
        return [e[1] for e in self.events]

    def close(self):
        try:
            self.link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.thread.join(10)
        self.link.close()


# ---- time

ALIVE = Server()
ALIVE_STREAM = Stream(ALIVE, "quiet")
ALIVE_STREAM.ready()
time.sleep(0.3)
ALIVE_FIRST = ALIVE_STREAM.comments
ALIVE_SINCE = time.monotonic()


def p99(times):
    return sorted(times)[int(len(times) * 0.99)]


def renew_for(server, seconds):
    link = http.client.HTTPConnection(*server.address, timeout=20)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        status, _, body = ask_on(link, "POST", RENEW, OWNER, None, server)
        assert status == 200, (status, body)
        times.append(time.monotonic() - began)
        time.sleep(0.005)
    link.close()
    return times


def drip(links, data, stop):
    for at in range(len(data)):
        for link in links:
            try:
                link.send(data[at:at + 1])
            except OSError:
                pass
        if stop.wait(1):
            return


def is_closed(link):
    link.setblocking(False)
    try:
        return link.recv(1000) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@case("two hundred silent and two hundred slow clients delay nobody, and are dropped")
def slow_clients():
    with Server("--request-timeout", "3s") as server:
        prepare(server)
        silent = [server.connect() for _ in range(200)]
        slow = [server.connect() for _ in range(200)]
        stop = threading.Event()
        half = len(slow) // 2
        body = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" % RENEW.encode()
        for link in slow[half:]:
            link.sendall(body)
        drips = [threading.Thread(target=drip, args=(slow[:half], b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y", stop)),
                 threading.Thread(target=drip, args=(slow[half:], b" " * 60, stop))]
        for each in drips:
            each.start()
        watch = Watch()
        times = renew_for(server, 5.5)
        print("# renewals: %d, p99 %.1f ms" % (len(times), p99(times) * 1000))
        late = watch.late()

        def left():
            return [sum(not is_closed(link) for link in links) for links in (silent, slow[:half], slow[half:])]
        end = time.monotonic() + late
        while time.monotonic() < end and any(left()):
            time.sleep(0.1)
        left = left()
        stop.set()
        for each in drips:
            each.join()
        for link in silent + slow:
            link.close()
        assert len(times) > 20 and p99(times) < 0.5 + late, (len(times), p99(times), late)
        assert left == [0, 0, 0], "still connected: silent, slow heads, slow bodies: %r" % left
        assert server.ask("GET", "/healthz")[0] == 200


@case("an answer that is taken a byte at a time is not waited for")
def slow_reader():
    with Server("--request-timeout", "2s") as server:
        edits = [{"action": "put", "target": {"id": "t%d" % i, "spec": "x" * 900}} for i in range(1000)]
        for first in range(0, 5):
            body = {"edits": [dict(e, target=dict(e["target"], id="%d-%s" % (first, e["target"]["id"]))) for e in edits]}
            assert server.ask("POST", "/api/v1/n", body)[0] == 200
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(server.address)
        link.sendall(b"GET /api/v1/n?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def connections():
            return int(re.search(r"tenure_http_connections (\d+)", server.ask("GET", "/metrics")[2]).group(1))

        # One is that of the question. The one before it may still be counted, too, so that it need only be so once.
        def is_dropped():
            with contextlib.suppress(OSError):
                link.settimeout(0.2)
                link.recv(1)
            return connections() == 1
        until(60, "the slow reader is dropped", is_dropped)
        link.close()


@case("a query has up to 100 parameters, and more are refused with an answer")
def arguments():
    with Server() as server:
        assert server.ask("GET", "/api/v1/n?" + "&".join("id=a%d" % i for i in range(100)))[0] == 200
        for path in ("/api/v1/n?" + "&".join("id=a%d" % i for i in range(101)), "/api/v1/n?" + "&".join(["id=a"] * 900),
                     "/scenes/x?" + "&".join(["b=c"] * 400), "/healthz?" + "&" * 7000):
            refused(server.ask("GET", path), 414, "too_large", "100 parameters")
        with server.connect() as link:  # and the connection goes on
            for _ in range(3):
                link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b" 200 " in link.recv(65536)

@case("headers that a proxy may understand in another way are refused, and what follows them is not answered")
def framing():
    with Server() as server:
        server.ask("PUT", "/api/v1/f/t", {})
        assert server.ask("POST", "/api/v1/f/t/lease", {"holder_id": "a"})[0] == 201
        body = b'{"holder_id":"a"}'
        start = b"POST /api/v1/f/t/lease/renew HTTP/1.1\r\nHost: localhost\r\n"
        hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        length = b"Content-Length: %d\r\n" % len(body)
        assert server.raw(start + length + b"X-Empty:\r\nX:y\r\nY: \t z\t \r\nConnection: close\r\n\r\n" +
                          body).startswith(b"HTTP/1.1 200")
        for lines in (b"Transfer-Encoding : chunked\r\n" + length, b"Transfer-Encoding\t: chunked\r\n" + length,
                      b"Transfer-Encoding:\r\n chunked\r\n" + length, b"Transfer-Encoding: x,\r\n chunked\r\n" + length,
                      b"X: y\rTransfer-Encoding: chunked\r\n" + length, b"X: y\r\n Transfer-Encoding: chunked\r\n" + length,
                      b"Content-Length:\r\n %d\r\n" % len(body), b"Content: %d\r\n -Length\r\n" % len(body),
                      b"Content: %d\r\n\t-Length\r\n" % len(body), length + b"X: \x01\r\n", length + b"(X): y\r\n",
                      b"Transfer-Encoding: chunked\r\n" + length, length + length, length + b"X: y\0z\r\n",
                      b"X: y\0z\r\n" + length, b"X: y\0\r\n" + length, b"X: y\0 Z: \r\nX: y\r\n" + length):
            answer = server.raw(start + lines + b"\r\n" + body + hidden)
            assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1, (lines, answer)
            assert b"folded" in answer or b"\r\n " not in lines and b"\r\n\t" not in lines, (lines, answer)
        for path in (b"/api/v1/f\0/x", b"/api/v1/f\0", b"/api/v1/f?a=b\0", b"/api/v1/f\0?a=b", b"/api/v1/f\0HTTP/1.1 x"):
            answer = server.raw(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400") and b"NUL" in answer, (path, answer)
        for path in (b"/api/v1/f", b"/api/v1/f?limit=5&after=x", b"/api/v1/f?"):
            for end in (b"", b"Connection: close \t \r\n", b"A:\r\nB: \r\n"):
                link = server.connect()
                link.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + end + b"\r\n")
                assert link.recv(65536).startswith(b"HTTP/1.1 200"), (path, end)
                link.close()


@case("keep-alive: many requests on one connection, and pipelined ones in their order")
def keep_alive():
    with Server() as server:
        prepare(server)
        link = http.client.HTTPConnection(*server.address, timeout=10)
        link.connect()
        sock = link.sock
        for _ in range(50):
            assert ask_on(link, "POST", RENEW, OWNER, None, server)[0] == 200
            assert ask_on(link, "GET", "/nowhere", None, None, server)[0] == 404
        assert link.sock is sock
        link.close()
        one = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = server.raw(one % b"/healthz" + one % b"/api/v1/n/t/lease" + one % b"/nowhere" + one % b"/readyz", timeout=4)
        assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"404", b"200"], answer


# ---- events

def change(server, number, ns="n"):
    assert server.ask("PUT", "/api/v1/%s/c%d" % (ns, number))[0] in (200, 201)


@case("events arrive at every reader, and a reader that comes back gets what it missed")
def events():
    with Server() as server:
        streams = [Stream(server).ready() for _ in range(5)]
        other = Stream(server, "elsewhere").ready()
        assert streams[0].head["content-type"].startswith("text/event-stream")
        assert streams[0].head["x-content-type-options"] == "nosniff", streams[0].head
        assert streams[0].head["cross-origin-resource-policy"] == "same-origin", streams[0].head
        prepare(server)
        server.ask("DELETE", "/api/v1/n/t/lease", OWNER)
        wanted = ["target_added", "lease_acquired", "lease_released"]
        for stream in streams:
            until(5, "the events", lambda s=stream: len(s.events) >= 3)
            assert stream.kinds() == wanted, stream.kinds()
        acquired = streams[0].events[1]
        assert acquired[2]["target"] == "t" and acquired[2]["instance"] == "a" and acquired[2]["token"] == 1, acquired
        again = Stream(server, last=acquired[0])
        until(5, "the rest", lambda: len(again.events) >= 1)
        assert again.events == streams[0].events[2:], again.events
        by_query = Stream(server, query="?last_event_id=%d" % streams[0].events[0][0])
        until(5, "the rest", lambda: len(by_query.events) >= 2)
        whole = Stream(server, last=0)
        until(5, "all of it", lambda: len(whole.events) >= 3)
        assert whole.events == streams[0].events
        change(server, 1)
        for stream in streams + [again, whole]:
            until(5, "the next", lambda s=stream: s.kinds()[-1:] == ["target_added"] and len(s.events) > 1)
        assert other.events == []
        refused(server.ask("GET", "/api/v1/n/events", None, {"Last-Event-ID": "x"}), 400, "bad_request")
        refused(server.ask("GET", "/api/v1/n/events", None, {"Last-Event-ID": "-1"}), 400, "bad_request")
        for stream in streams + [again, by_query, whole, other]:
            stream.close()


def event_readers(server):
    return int(re.search(r"tenure_event_readers (\d+)", server.ask("GET", "/metrics")[2]).group(1))


@case("readers that never read are dropped, the others get everything")
def deaf_readers():
    with Server("--request-timeout", "3s") as server:
        deaf = []
        for _ in range(20):
            link = socket.socket()
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect(server.address)
            link.sendall(b"GET /api/v1/n/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            deaf.append(link)
        good = Stream(server).ready()
        until(5, "all are there", lambda: event_readers(server) == 21)
        total = 0
        for number in range(30):
            ids = ["%s-%d-%d" % ("long" * 40, number, i) for i in range(1000)]
            body = {"edits": [{"action": "put", "target": {"id": i}} for i in ids]}
            assert server.ask("POST", "/api/v1/n", body)[0] == 200
            total += 1000
            until(10, "the good one keeps up", lambda t=total: len(good.events) >= t or good.ended)
        assert len(good.events) == total and not good.ended, (len(good.events), total)
        until(12, "the deaf are gone", lambda: event_readers(server) == 1)
        for link in deaf:
            link.close()
        good.close()


# ---- its store, and its end

def lock(server):
    """Nobody can use its SQLite file until this is closed."""
    held = sqlite3.connect(server.store[len("sqlite:"):], isolation_level=None, timeout=10)
    held.execute("BEGIN EXCLUSIVE")
    return held


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    return thread, found


@case("while the store hangs it is alive, and says of everything else that it is unavailable")
def hung_store():
    with Server("--ttl", "2s", "--renew", "500ms") as server:
        prepare(server)
        held, watch = lock(server), Watch()
        asked = [in_thread(lambda p=p, m=m, b=b: (time.monotonic(), server.ask(m, p, b, timeout=120), time.monotonic()))
                 for m, p, b in [("POST", RENEW, OWNER), ("GET", "/api/v1/n", None), ("GET", "/readyz", None),
                                 ("PUT", "/api/v1/n/x", {})] + [("POST", RENEW, OWNER)] * 20 + [("GET", "/api/v1/n", None)] * 10]
        for _ in range(20):
            watch = Watch()
            assert server.ask("GET", "/healthz")[0] == 200
            watch.below(1)
        answers = []
        for thread, found in asked:
            thread.join(120)
            assert found, "no answer at all"
            answers.append(found[0])
        late = watch.late()
        for began, answer, ended in answers:
            if answer[0] == 200:  # a reader may not need the lock
                continue
            refused(answer, 503, "unavailable")
            assert answer[1]["retry-after"] == "1" and ended - began < 20 + late, ended - began
        assert answers[0][1][0] == 503
        assert 'tenure_store_up 0' in server.ask("GET", "/metrics")[2]
        held.close()
        until(10, "it works again", lambda: server.ask("POST", RENEW, OWNER)[0] in (200, 404))
        until(10, "it is ready again", lambda: server.ask("GET", "/readyz")[0] == 200)


@case("a batch that only reads does not wait behind the renewals")
def read_batches():
    reads = {"holder_id": "reader", "ops": [{"op": "read", "id": "t"}, {"op": "read_checkpoint", "id": "t"}]}

    def read_beside_renewal(server):
        """The reads are answered while a renewal waits for a lock, which it gets afterwards. A busy machine may be too late
        for the renewal's time-out."""
        held = sqlite3.connect(server.store[len("sqlite:"):], isolation_level=None, timeout=30)
        held.execute("BEGIN IMMEDIATE")  # nobody can write, everybody can read
        thread, renewed = in_thread(lambda: server.ask("POST", RENEW, OWNER, timeout=120))
        time.sleep(0.5)  # so that its lane has it
        answer = server.ask("POST", "/api/v1/n/leases", reads, timeout=120)
        held.close()
        thread.join(120)
        assert answer[0] == 200 and [found["holder_id"] for found in answer[2]] == ["a", "a"], answer
        return renewed[0][0] == 200
    with Server("--ttl", "60s") as server:
        prepare(server)
        assert server.ask("POST", "/api/v1/n/leases", reads)[0] == 200
        assert any(read_beside_renewal(server) for _ in range(5)), "the reads were answered after the renewal"
        # It begins no namespace, and what it asks for is answered as before.
        answer = server.ask("POST", "/api/v1/invented/leases", reads)
        assert answer[0] == 200 and [found["outcome"] for found in answer[2]] == ["ok", "ok"], answer
        assert server.ask("GET", "/api/v1")[2] == ["n"]


@case("what is wrong with the store is for the log, and not for clients")
def hidden_trouble():
    with Server("--ttl", "2s", "--renew", "500ms") as server:
        prepare(server)
        held = lock(server)
        for method, path, body in [("POST", RENEW, OWNER), ("PUT", "/api/v1/n/x", {}), ("GET", "/readyz", None)]:
            answer = server.ask(method, path, body, timeout=120)
            if answer[0] != 200:
                refused(answer, 503, "unavailable", "log")
                assert server.directory not in json.dumps(answer[2]), answer
        held.close()
        until(30, "it is logged", lambda: "store_down" in server.said() and server.directory in server.said())


@case("at SIGTERM an answer under way arrives, streams end, idle connections are not waited for")
def drains():
    with Server() as server:
        prepare(server)
        stream = Stream(server).ready()
        idle = [server.connect() for _ in range(5)]
        held = lock(server)
        thread, found = in_thread(lambda: server.ask("POST", RENEW, OWNER))
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.is_alive()
        try:
            server.connect(1)
            raise AssertionError("it still takes connections")
        except OSError:
            pass
        held.close()
        thread.join(60)
        assert found and found[0][0] == 200, found
        watch = Watch()
        assert server.process.wait(60) == 0
        watch.below(3)  # or it waited for idle connections
        until(2, "the stream has ended", lambda: stream.ended)
        for link in idle:
            link.close()


@case("a second SIGTERM hurries")
def hurries():
    with Server("--ttl", "3s", "--renew", "700ms") as server:
        prepare(server, ttl_ms=600000)
        held = lock(server)
        threads = [in_thread(lambda: server.ask("GET", "/api/v1/n?leased=true", timeout=30)) for _ in range(4)]
        threads += [in_thread(lambda: server.ask("POST", "/api/v1/n", {"edits": [{"action": "put", "target": {"id": "q"}}]},
                                                 timeout=30)) for _ in range(10)]
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        server.process.send_signal(signal.SIGTERM)
        watch = Watch()
        server.process.wait(60)
        held.close()
        watch.below(5)
        for thread, _ in threads:
            thread.join(10)


# ---- where it listens

@case("a socket is its owner's alone, a stale one is replaced, one in use is not, and it is removed at the end")
def unix_socket():
    path = WORK.name + "/socket"
    with Server(listen="unix:" + path) as server:
        mode = os.stat(path).st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, oct(mode)
        prepare(server)
        found = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://localhost/api/v1/n/t/lease"], check=True,
                               stdout=subprocess.PIPE).stdout
        assert json.loads(found)["holder_id"] == "a"
        second = subprocess.run([TENURE, "serve", "--store", server.store, "--listen", "unix:" + path],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=10)
        assert second.returncode == 1 and path.encode() in second.stderr, second
        assert server.ask("GET", "/healthz")[0] == 200
        server.process.kill()
        server.process.wait()
        assert os.path.exists(path)
        server.start()
        assert server.ask("POST", RENEW, OWNER)[0] == 200
        assert server.stop() == 0
        assert not os.path.exists(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("precious")
    with Server(listen="unix:" + path, wait=False) as server:
        assert server.process.wait(60) == 1
    assert open(path, encoding="utf-8").read() == "precious"


@case("an address that others can reach wants TLS and auth")
def exposed():
    cert = certificates()
    auth = auth_file(WORK.name, "all admin * * " + digest("x"))
    for listen in ("0.0.0.0:0", ":0", "[::]:0"):
        for options in ((), ("--auth-file", auth), ("--tls-cert", cert["server"], "--tls-key", cert["server_key"])):
            with Server(*options, listen=listen, wait=False) as server:
                assert server.process.wait(60) != 0, (listen, options)
                assert "--insecure" in server.said(), server.said()
    with Server("--insecure", listen="0.0.0.0:0") as server:
        assert server.address[0] == "0.0.0.0"
    with Server("--auth-file", auth, "--tls-cert", cert["server"], "--tls-key", cert["server_key"],
                listen="0.0.0.0:0") as server:
        assert server.is_alive()
    for listen in ("nonsense", "127.0.0.1:x", "127.0.0.1:99999", "unix:" + "x" * 200):
        with Server(listen=listen, wait=False) as server:
            assert server.process.wait(60) != 0, listen
    with Server(store="memory:", wait=False) as server:
        assert server.process.wait(60) != 0, "a store that ends with it is no store for a server"


@case("it answers to its own names only, and to no page of another site")
def names():
    with Server("--host", "leases.example", "--host", "other.example:99") as server:
        prepare(server)
        port = server.address[1]
        for host in ("localhost", "127.0.0.1", "LOCALHOST:%d" % port, "127.9.9.9", "[::1]:%d" % port, "leases.example",
                     "Leases.Example:%d" % port, "other.example:99"):
            assert server.ask("GET", "/healthz", None, {"Host": host})[0] == 200, host
        for host in ("evil.example", "localhost.evil", "127.0.0.1.evil", "127.evil", "other.example", "127.0.0.1x", "a:b:c",
                     "[::1]x", "xlocalhost", "localhost@evil", "[::2]"):
            refused(server.ask("POST", RENEW, OWNER, {"Host": host}), 421, "bad_request")
        for origin in ("http://evil.example", "null", "http://localhost.evil", "http://127.0.0.1:1", "x"):
            for kind in ("application/json", "application/x-www-form-urlencoded"):
                refused(server.ask("POST", RENEW, OWNER, {"Origin": origin, "Content-Type": kind}), 403, "forbidden")
                refused(server.ask("DELETE", "/api/v1/n/t/lease?holder_id=a", None, {"Origin": origin}), 403, "forbidden")
        own = "127.0.0.1:%d" % port
        assert server.ask("POST", RENEW, OWNER, {"Origin": "http://" + own, "Host": own})[0] == 200
        assert "access-control-allow-origin" not in server.ask("GET", "/healthz", None, {"Origin": "http://evil"})[1]


# ---- TLS

MADE = {}


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=WORK.name)


def certificates():
    """A CA, a server's certificate by it, clients' by it and by another CA."""
    if MADE:
        return MADE
    for ca in ("ca", "foreign"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=" + ca, "-keyout", ca + ".key", "-out", ca + ".pem")
    for name, ca, extension in (("server", "ca", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
                                ("client", "ca", "extendedKeyUsage=clientAuth"),
                                ("servant", "ca", "extendedKeyUsage=serverAuth"),
                                ("stranger", "foreign", "extendedKeyUsage=clientAuth")):
        with open(WORK.name + "/ext", "w", encoding="utf-8") as file:
            file.write(extension + "\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + name,
                "-keyout", name + ".key", "-out", name + ".csr")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", ca + ".pem", "-CAkey", ca + ".key", "-CAcreateserial",
                "-days", "2", "-extfile", "ext", "-out", name + ".pem")
        MADE[name], MADE[name + "_key"] = WORK.name + "/" + name + ".pem", WORK.name + "/" + name + ".key"
    MADE["ca"] = WORK.name + "/ca.pem"
    return MADE


def tls_get(server, client=None, version=None, path="/healthz"):
    cert = certificates()
    context = ssl.create_default_context(cafile=cert["ca"])
    if version:
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
    if client:
        context.load_cert_chain(cert[client], cert[client + "_key"])
    link = http.client.HTTPSConnection("127.0.0.1", server.address[1], context=context, timeout=10)
    try:
        link.connect()
        spoken = link.sock.version()
        return spoken, ask_on(link, "GET", path, None, None, None)
    finally:
        link.close()


@case("TLS is 1.2 or 1.3, and plain HTTP is not answered on it")
def tls():
    cert = certificates()
    with Server("--tls-cert", cert["server"], "--tls-key", cert["server_key"]) as server:
        assert tls_get(server)[1][0] == 200
        for version, word in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            assert tls_get(server, None, version)[0] == word
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            try:
                raise AssertionError("it spoke %s" % (tls_get(server, None, version),))
            except (ssl.SSLError, OSError):
                pass
        answer = server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout=2)
        assert b"200" not in answer, answer
        silent = [server.connect() for _ in range(50)]  # a handshake that does not come
        assert tls_get(server)[1][0] == 200
        for link in silent:
            link.close()
    for pair in ((cert["server"], cert["client_key"]), (cert["server"], "/nowhere"), (WORK.name + "/ext", cert["server_key"])):
        with Server("--tls-cert", pair[0], "--tls-key", pair[1], wait=False) as server:
            assert server.process.wait(60) != 0
            assert server.said().strip(), "it says why"


@case("connections that only begin a handshake are few, and keep nobody else from theirs")
def greetings():
    cert = certificates()
    with Server("--tls-cert", cert["server"], "--tls-key", cert["server_key"]) as server:
        context = ssl.create_default_context(cafile=cert["ca"])
        kept = http.client.HTTPSConnection("127.0.0.1", server.address[1], context=context, timeout=60)
        assert ask_on(kept, "GET", "/healthz", None, None, None)[0] == 200
        links = [server.connect() for _ in range(400)]
        hello = ssl.MemoryBIO()
        session = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello = hello.read()

        def is_closed(link):
            try:
                return bool(select.select([link], [], [], 0)[0]) and not link.recv(1)
            except ConnectionError:
                return True
        # However fast the key is: fifty milliseconds of handshakes, at 300 us at least.
        until(20, "most of them are closed", lambda: sum(map(is_closed, links)) >= 200)
        assert is_closed(links[0]) and not is_closed(links[-1])
        for link in links:
            try:
                link.sendall(hello)
            except OSError:
                pass
        assert ask_on(kept, "GET", "/healthz", None, None, None)[0] == 200
        assert tls_get(server)[1][0] == 200
        kept.close()
        for link in links:
            link.close()


@case("SIGHUP reads the certificate and its key again; a pair that does not fit changes nothing")
def renewed_certificate():
    cert = certificates()
    pair = [WORK.name + "/renewed.pem", WORK.name + "/renewed.key"]

    def write(name, key):
        for path, source in zip(pair, (cert[name], cert[key])):
            with open(source, "rb") as old, open(path, "wb") as new:
                new.write(old.read())
        os.chmod(pair[1], 0o600)

    def shown():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with server.connect() as plain, context.wrap_socket(plain) as link:
            return link.getpeercert(binary_form=True)
    write("server", "server_key")
    with Server("--tls-cert", pair[0], "--tls-key", pair[1]) as server:
        first = shown()
        write("servant", "client_key")
        server.process.send_signal(signal.SIGHUP)
        until(5, "it says so", lambda: "certificate_refused" in server.said())
        assert shown() == first and "belong together" in server.said()
        write("servant", "servant_key")
        server.process.send_signal(signal.SIGHUP)
        until(5, "it is read", lambda: "certificate_read" in server.said())
        assert shown() != first
        assert "key_exposed" not in server.said()


@case("with a CA for clients, a client without its certificate is refused")
def client_certificates():
    cert = certificates()
    with Server("--tls-cert", cert["server"], "--tls-key", cert["server_key"], "--client-ca", cert["ca"]) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert tls_get(server, "client", version)[1][0] == 200
            for client in (None, "stranger", "servant"):
                for path in ("/healthz", "/api/v1/n", "/metrics", "/nowhere"):
                    try:
                        status = tls_get(server, client, version, path)[1][0]
                        assert status == 403, (client, version, path, status)
                    except (ssl.SSLError, http.client.HTTPException, OSError):
                        pass
        assert tls_get(server, "client")[1][0] == 200


# ---- who may do what

@case("who has no token, a wrong one, or another role is refused, and nothing has changed")
def roles():
    path = auth_file(WORK.name, "# who may do what", "", "eye read n* * " + digest("r"), "hand hold n hand-* " + digest("h"),
                     "boss admin * * " + digest("b"), "chief admin n chief-* " + digest("c"))
    with Server("--auth-file", path) as server:
        def ask(token, method, where, body=None):
            return server.ask(method, where, body, bearer(token) if token else None)
        every = [("GET", "/api/v1/n", None), ("PUT", "/api/v1/n/x", {}), ("DELETE", "/api/v1/n/x", None),
                 ("POST", "/api/v1/n", {"edits": [{"action": "put", "target": {"id": "x"}}]}),
                 ("GET", "/api/v1/n/t/lease", None), ("POST", "/api/v1/n/t/lease", {"holder_id": "hand-1"}),
                 ("POST", RENEW, {"holder_id": "hand-1"}), ("DELETE", "/api/v1/n/t/lease", {"holder_id": "hand-1"}),
                 ("POST", "/api/v1/n/t/lease/hand", {"holder_id": "hand-1", "version": 1, "successor_id": "hand-2"}),
                 ("POST", "/api/v1/n/leases", {"holder_id": "hand-1", "ops": [{"op": "acquire", "id": "t"}]}),
                 ("GET", "/api/v1/n/nodes", None), ("PUT", "/api/v1/n/nodes/hand-1", {}), ("GET", "/metrics", None),
                 ("DELETE", "/api/v1/n/nodes/hand-1", None), ("GET", "/api/v1/n/history", None), ("GET", "/api/v1/n/events", None)]
        for method, where, body in every:
            for token in (None, "wrong", "", "R", "r "):
                answer = ask(token, method, where, body)
                if token == "r " and answer[0] != 401:
                    continue  # blanks at the end of a header are nothing
                refused(answer, 401, "unauthorized")
                assert answer[1]["www-authenticate"].startswith("Bearer")
            if method != "GET":
                refused(ask("r", method, where, body), 403, "forbidden")
        for where in ("/healthz", "/readyz", "/openapi.json", "/"):
            assert ask(None, "GET", where)[0] == 200
        for scheme in ("Basic ", "bearer", "Token ", ""):
            assert server.ask("GET", "/api/v1/n", None, {"Authorization": scheme + "b"})[0] == 401, scheme
        assert ask("b", "GET", "/api/v1/n")[2] == [] and ask("b", "GET", "/api/v1/n/history")[2] == []
        assert ask("b", "PUT", "/api/v1/n/t")[0] == 201
        for method, where, body in every:
            if method == "PUT" and where.endswith("/x") or where == "/api/v1/n" and method == "POST" or where.endswith("/x"):
                refused(ask("h", method, where, body), 403, "forbidden")
        # One's own namespaces and holders.
        refused(ask("h", "GET", "/api/v1/other"), 403, "forbidden")
        refused(ask("r", "GET", "/api/v1/other/events"), 403, "forbidden")
        assert ask("r", "GET", "/api/v1/nn")[0] == 200
        assert ask("h", "POST", "/api/v1/n/t/lease", {"holder_id": "hand-1"})[0] == 201
        for method, where, body in [
                ("POST", "/api/v1/n/t/lease", {"holder_id": "foot"}), ("POST", RENEW, {"holder_id": "foot"}),
                ("DELETE", "/api/v1/n/t/lease", {"holder_id": "foot"}), ("DELETE", "/api/v1/n/t/lease?holder_id=foot", None),
                ("POST", "/api/v1/n/t/lease/hand", {"holder_id": "foot", "version": 1, "successor_id": "hand-1"}),
                ("PUT", "/api/v1/n/nodes/foot", {}), ("DELETE", "/api/v1/n/nodes/foot", None)]:
            refused(ask("h", method, where, body), 403, "forbidden")
        batch = "/api/v1/n/leases"
        for op in ({"op": "acquire", "id": "z"}, {"op": "acquire_fresh", "id": "z"}, {"op": "renew", "id": "t", "version": 1},
                   {"op": "keep", "id": "t", "version": 1}, {"op": "release", "id": "t", "version": 1}, {"op": "announce"},
                   {"op": "leave"}, {"op": "hand", "id": "t", "version": 1, "successor_id": "hand-1"}):
            refused(ask("h", "POST", batch, {"holder_id": "foot", "ops": [op]}), 403, "forbidden")
            refused(ask("h", "POST", batch, {"holder_id": "foot", "ops": [{"op": "read", "id": "t"}, op]}), 403, "forbidden")
        for op in ({"op": "force", "id": "t"}, {"op": "force_now", "id": "t"}, {"op": "ask", "id": "t", "ask": 1},
                   {"op": "release", "id": "t", "version": 1, "holder_id": None},
                   {"op": "renew", "id": "t", "version": 1, "holder_id": None}):
            refused(ask("h", "POST", batch, {"holder_id": "hand-2", "ops": [op]}), 403, "forbidden")
        # A lease may be handed over to somebody else's instance, by its holder, under its token.
        found = ask("h", "POST", batch, {"holder_id": "hand-2", "ops": [
            {"op": "hand", "id": "t", "version": 1, "successor_id": "foot", "holder_id": None}]})
        assert found[0] == 200 and found[2][0]["outcome"] == "lost", found
        assert ask("b", "PUT", "/api/v1/n/nodes/foot", {})[0] == 204
        assert ask("h", "POST", "/api/v1/n/u/lease/hand", {"holder_id": "hand-1", "version": 1, "successor_id": "foot"})[0] == 404
        found = ask("h", "POST", batch, {"holder_id": "hand-1", "ops": [
            {"op": "acquire", "id": "u"}, {"op": "hand", "id": "u", "version": 1, "successor_id": "foot"}]})
        assert found[0] == 200 and [f["outcome"] for f in found[2]] == ["ok", "ok"] and found[2][1]["holder_id"] == "foot", found
        assert ask("b", "DELETE", "/api/v1/n/nodes/foot")[0] == 204
        # A member that is not looked at names nobody else.
        found = ask("h", "POST", batch, {"holder_id": "hand-2", "ops": [{"op": "release", "id": "t", "holder_id": "hand-1"}]})
        assert found[0] in (200, 400, 403) and ask("b", "GET", "/api/v1/n/t/lease")[2]["holder_id"] == "hand-1"
        assert ask("r", "POST", batch, {"holder_id": "x", "ops": [{"op": "read", "id": "t"}]})[0] == 200
        refused(ask("c", "POST", RENEW, {"holder_id": "hand-1"}), 403, "forbidden")  # an admin's holders, too
        assert ask("b", "GET", "/api/v1/n/t/lease")[2]["holder_id"] == "hand-1"
        assert ask("b", "POST", batch, {"holder_id": "boss", "ops": [{"op": "force_now", "id": "t"}]})[2][0]["outcome"] == "ok"
        assert [i["instance"] for i in ask("b", "GET", "/api/v1/n/nodes")[2]] == []


@case("SIGHUP reads the auth file again; one that is wrong changes nothing")
def reread():
    path = auth_file(WORK.name, "a admin * * " + digest("old"))
    with Server("--auth-file", path) as server:
        def status(token):
            return server.ask("GET", "/api/v1/n", None, bearer(token))[0]
        assert (status("old"), status("new")) == (200, 401)
        with open(path, "w", encoding="utf-8") as file:
            file.write("a nonsense\n")
        server.process.send_signal(signal.SIGHUP)
        until(5, "it says so", lambda: "auth_file_refused" in server.said())
        assert "line 1" in server.said() and (status("old"), status("new")) == (200, 401)
        with open(path, "w", encoding="utf-8"):
            pass  # as another program leaves it for a moment
        server.process.send_signal(signal.SIGHUP)
        until(30, "it says so", lambda: "names no principal" in server.said())
        assert (status("old"), status("new")) == (200, 401)
        with open(path, "w", encoding="utf-8") as file:
            file.write("a admin * * %s\n" % digest("new"))
        server.process.send_signal(signal.SIGHUP)
        until(5, "it is read", lambda: status("new") == 200)
        assert status("old") == 401
        os.remove(path)
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert status("new") == 200
    for text in ("a nonsense * * " + digest("x"), "a read * *", "a read * * 12"):
        with Server("--auth-file", auth_file(WORK.name, "", text), wait=False) as server:
            assert server.process.wait(60) != 0 and "line 2" in server.said(), server.said()
    with Server("--auth-file", auth_file(WORK.name, "", "# nobody"), wait=False) as server:
        assert server.process.wait(60) != 0 and "names no principal" in server.said(), server.said()
    open_to_all = auth_file(WORK.name, "a read * * " + digest("x"))
    os.chmod(open_to_all, 0o666)
    with Server("--auth-file", open_to_all, wait=False) as server:
        assert server.process.wait(60) != 0 and "o-w" in server.said()


@case("a stream on which nothing happens says something every now and then")
def comments():
    left = 16.5 - (time.monotonic() - ALIVE_SINCE)
    if left > 0:
        time.sleep(left)
    until(1, "a comment", lambda: ALIVE_STREAM.comments > ALIVE_FIRST)
    assert not ALIVE_STREAM.ended and not ALIVE_STREAM.events, ALIVE_STREAM.comments
    assert ALIVE.stop() == 0
    ALIVE_STREAM.close()


try:
    main()
finally:
    ALIVE.remove()
    WORK.cleanup()
