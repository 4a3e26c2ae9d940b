"""`tenure serve` among clients that take all that they can get: each principal has a budget, those without a token the
smallest, and what is urgent gets through. Run by server_budget.sh."""
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.environ["TENURE_SOURCE"] + "/tests/lib")
import rest  # noqa: E402  pylint: disable=wrong-import-position
from rest import TENURE, Server, bearer, case, digest, main, refused, until  # noqa: E402  pylint: disable=wrong-import-position

WORK = tempfile.TemporaryDirectory(prefix="tenure-budget.")
MIB = 1024 * 1024


LINES = ["eye read a* * " + digest("reader"), "hand hold a* a-* " + digest("holder"), "boss admin * * " + digest("admin")]


def auth_file(lines=None):
    return rest.auth_file(WORK.name, *(lines or LINES))


class Team:
    """A lease of another team, which has to be renewed whatever happens."""

    def __init__(self, server):
        self.server = server
        assert server.ask("PUT", "/api/v1/b/t", {}, bearer("admin"))[0] == 201
        body = {"holder_id": "b-1", "ttl_ms": 600000}
        assert server.ask("POST", "/api/v1/b/t/lease", body, bearer("admin"))[0] == 201

    def renew(self):
        answer = self.server.ask("POST", "/api/v1/b/t/lease/renew", {"holder_id": "b-1"}, bearer("admin"))
        assert answer[0] == 200, answer
        answer = self.server.ask("PUT", "/api/v1/b/nodes/b-1", {"weight": 1}, bearer("admin"))
        assert answer[0] == 204, answer


def memory_mib(server):
    """The most that it has used; a sanitizer keeps what was freed, so that this says nothing."""
    with open(TENURE, "rb") as file:
        if b"__asan_init" in file.read():
            return 0
    with open("/proc/%d/status" % server.process.pid, encoding="ascii") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM"))


def metric(server, name, principal, limit, token="admin"):
    def ask():  # on a busy machine this principal may have used its time
        status, _, found = server.ask("GET", "/metrics", None, bearer(token))
        return found if status == 200 else None
    text = until(10, "the metrics can be read", ask)
    start = '%s{principal="%s",limit="%s"} ' % (name, principal, limit)
    return next((int(line[len(start):]) for line in text.splitlines() if line.startswith(start)), None)


def logged(server, event):
    """Lines of the log, which are written a moment later."""
    def found():
        return [json.loads(line) for line in server.said().splitlines(True) if '"%s"' % event in line and line.endswith("\n")]
    return until(10, event + " is logged", found)


def head(method, path, token, size=0):
    return ("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" %
            (method, path, token, size)).encode()


def small_window(server):
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    link.settimeout(60)
    link.connect(server.address)
    return link


def first_line(link, timeout=60):
    link.settimeout(timeout)
    text = b""
    while b"\r\n\r\n" not in text:
        more = link.recv(4096)
        if not more:
            break
        text += more
    return text


def begun(link):
    """Until the stream tells whatever happens from now on; the status comes before that."""
    text = first_line(link)
    while b": ok" not in text:
        more = link.recv(4096)
        assert more, text
        text += more
    return text


def first_line_of(server, path):
    link = server.connect()
    link.sendall(head("GET", path, "reader"))
    try:
        return first_line(link).split()[1]
    finally:
        link.close()


@case("a body that would become large is refused before it is parsed")
def bomb():
    with Server("--auth-file", auth_file()) as server:
        ops = json.dumps([{"op": "read", "id": "t%d" % i} for i in range(1000)])
        body = '{"holder_id":"x","ops":%s,"junk":[{}' % ops
        body += ",{}" * ((MIB - len(body) - 2) // 3) + "]}"
        refused(server.ask("POST", "/api/v1/a/leases", body, bearer("reader")), 413, "too_large", "values")
        before = memory_mib(server)
        links = [small_window(server) for _ in range(8)]
        for link in links:
            link.sendall(head("POST", "/api/v1/a/leases", "reader", len(body)) + body.encode())
        for link in links:
            assert b" 413 " in first_line(link)
            link.close()
        assert memory_mib(server) < before + 40, (before, memory_mib(server))


@case("bodies that a reader does not finish take no other team's room")
def bodies():
    with Server("--auth-file", auth_file()) as server:
        team = Team(server)
        links = []
        for _ in range(150):
            link = server.connect()
            link.sendall(head("POST", "/api/v1/a/leases", "reader", MIB) + b"{" + b" " * 60000)
            links.append(link)
        until(10, "the reader is refused more", lambda: metric(server, "tenure_principal_refused_total", "eye", "memory"))
        used = metric(server, "tenure_principal_used", "eye", "memory")
        assert 0 < used <= 80 * MIB, used
        for _ in range(5):
            team.renew()
        assert server.ask("POST", "/api/v1/b/u/lease", {"holder_id": "b-1"}, bearer("admin"))[0] == 404
        answer = server.ask("POST", "/api/v1/a/leases", "{" + " " * (MIB - 10), bearer("reader"))
        refused(answer, 429, "rate_limited", "eye", "memory")
        assert int(answer[1]["retry-after"]) >= 1
        lines = logged(server, "limit_reached")
        assert 1 <= len(lines) <= 5 and lines[0]["principal"] == "eye" and lines[0]["limit"] == "memory", lines
        for link in links:
            link.close()
        until(10, "its share is free again", lambda: metric(server, "tenure_principal_used", "eye", "memory") == 0)
        assert memory_mib(server) < 200


@case("answers that are not taken are at the expense of who asked")
def answers():
    with Server("--auth-file", auth_file()) as server:
        for first in range(5):
            edits = [{"action": "put", "target": {"id": "%d-%d" % (first, i), "spec": "x" * 9000}} for i in range(110)]
            until(10, "it is written", lambda: server.ask("POST", "/api/v1/a", {"edits": edits}, bearer("admin"))[0] == 200)
        team = Team(server)
        bodies_in_flight = [server.connect() for _ in range(56)]  # most of its share
        for link in bodies_in_flight:
            link.sendall(head("POST", "/api/v1/a/leases", "reader", MIB))
        until(10, "they count", lambda: metric(server, "tenure_principal_used", "eye", "memory") == 56 * MIB)
        links = [small_window(server) for _ in range(6)]
        for link in links:
            link.sendall(head("GET", "/api/v1/a?limit=10000", "reader"))
        until(10, "it is refused more", lambda: metric(server, "tenure_principal_refused_total", "eye", "memory"))
        team.renew()
        statuses = [first_line(link).split()[1] for link in links]
        assert b"429" in statuses, statuses
        for link in links + bodies_in_flight:
            link.close()
        until(10, "it is free again", lambda: metric(server, "tenure_principal_used", "eye", "memory") == 0)
        assert first_line_of(server, "/api/v1/a?limit=10000") == b"200"
        assert memory_mib(server) < 200, memory_mib(server)


@case("clients without a token take no connection from those who have one")
def strangers():
    with Server("--auth-file", auth_file()) as server:
        team = Team(server)
        links = []
        for i in range(700):
            link = socket.socket()
            link.settimeout(60)
            link.bind(("127.0.0.%d" % (10 + i // 200), 0))
            link.connect(server.address)
            links.append(link)
        team.renew()
        for link in links:
            try:
                link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            except OSError:
                pass
        team.renew()
        used = metric(server, "tenure_principal_used", "unauthenticated", "connections")
        assert used <= 512, used
        newest = first_line(links[-1])
        assert b" 200 " in newest or b" 429 " in newest, newest
        until(10, "the oldest was closed", lambda: not links[0].recv(1000))
        for link in links:
            link.close()


@case("a stream of every namespace that one can invent takes no other team's stream")
def streams():
    with Server("--auth-file", auth_file()) as server:
        links, statuses = [], []
        for i in range(70):
            link = server.connect()
            link.sendall(head("GET", "/api/v1/a-%d/events" % i, "reader"))
            links.append(link)
            statuses.append(first_line(link).split()[1])
        assert statuses[0] == b"200" and statuses[-1] == b"429" and 10 < statuses.count(b"200") < 60, statuses
        other = server.connect()
        other.sendall(head("GET", "/api/v1/prod/events", "admin"))
        begun(other)
        # What many read is charged once.
        more = server.connect()
        more.sendall(head("GET", "/api/v1/a-0/events", "reader"))
        assert b" 200 " in first_line(more)
        for link in links + [other, more]:
            link.close()
        until(10, "they are gone", lambda: metric(server, "tenure_principal_used", "eye", "streams") == 0)
        assert metric(server, "tenure_principal_used", "eye", "feeds") == 0


@case("metrics show a namespace that has something in it, to those who may see it")
def metrics():
    with Server("--auth-file", auth_file(), "--max-namespaces", "40") as server:
        for i in range(70):
            assert server.ask("GET", "/api/v1/a-%d" % i, None, bearer("reader"))[0] == 200
        assert server.ask("PUT", "/api/v1/prod/x", {}, bearer("admin"))[0] == 201

        def seen(token):
            text = server.ask("GET", "/metrics", None, bearer(token))[2]
            return {line.split('"')[1] for line in text.splitlines() if line.startswith("tenure_leases_held{")}
        assert seen("admin") == {"prod"} and seen("reader") == set()
        assert metric(server, "tenure_principal_used", "boss", "namespaces", "reader") is None
        assert metric(server, "tenure_principal_used", "eye", "namespaces", "reader") == 0
        # A holder can begin only so many, and others can still begin theirs.
        codes = [server.ask("PUT", "/api/v1/a-%d/nodes/a-1" % i, {}, bearer("holder"))[0] for i in range(40)]
        assert codes[0] == 204 and codes[-1] == 429 and 5 < codes.count(204) < 25, codes
        assert server.ask("PUT", "/api/v1/prod-2/x", {}, bearer("admin"))[0] == 201
        assert server.ask("PUT", "/api/v1/a-0/nodes/a-1", {}, bearer("holder"))[0] == 204  # one that is in use


@case("a token that is taken out of the auth file ends its streams")
def revocation():
    path = auth_file()
    with Server("--auth-file", path) as server:
        links = []
        for token in ("reader", "holder"):
            link = server.connect()
            link.sendall(head("GET", "/api/v1/a/events", token))
            assert b" 200 " in begun(link)
            links.append(link)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(LINES[1:]) + "\n")
        server.process.send_signal(signal.SIGHUP)
        until(10, "it is read", lambda: server.ask("GET", "/api/v1/a", None, bearer("reader"))[0] == 401)
        assert server.ask("PUT", "/api/v1/a/secret", {}, bearer("admin"))[0] == 201
        texts = [b"", b""]
        while b"secret" not in texts[1]:
            more = links[1].recv(4096)
            assert more, texts[1]
            texts[1] += more
        links[0].settimeout(60)
        while not texts[0].endswith(b"0\r\n\r\n"):
            more = links[0].recv(4096)
            if not more:
                break
            texts[0] += more
        assert b"secret" not in texts[0], texts[0]
        for link in links:
            link.close()


@case("what is denied is logged with the principal, a few lines at most")
def denials():
    with Server("--auth-file", auth_file()) as server:
        for _ in range(50):
            assert server.ask("GET", "/api/v1/b", None, bearer("reader"))[0] == 403
        for _ in range(8):
            assert server.ask("GET", "/api/v1/b", None, bearer("wrong"))[0] == 401
        until(10, "both are logged", lambda: len(logged(server, "request_denied")) >= 2)
        lines = logged(server, "request_denied")
        assert {(line["principal"], line["status"]) for line in lines} == {("eye", 403), ("unauthenticated", 401)}, lines
        assert len(lines) <= 8, lines
        assert lines[0]["request"] == "GET targets in b", lines
        link = server.connect()
        link.sendall(b"POST /api/v1/x/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n")
        sent = 0
        try:
            while sent < 64 * MIB:
                link.sendall(b"x" * MIB)
                sent += MIB
        except OSError:
            pass
        link.close()
        assert sent < 64 * MIB, "a body without end was read from a client without a token"


@case("a flood of requests is refused at a bounded rate, and a connection with a small body goes on afterwards")
def refusals():
    with Server("--auth-file", auth_file()) as server:
        team = Team(server)
        began = time.monotonic()
        links = [server.connect() for _ in range(30)]
        for link in links:
            link.sendall(head("POST", "/api/v1/b/leases", "wrong", 10) + b"0123456789")
        team.renew()
        answers = [first_line(link) for link in links]
        # Ten at once, then ten a second: a machine that is busy can only be slower.
        assert time.monotonic() - began > 1.5, "thirty refusals were told at once"
        assert all(b" 401 " in answer for answer in answers), answers
        links[-1].sendall(head("POST", "/api/v1/b/leases", "wrong", 10) + b"0123456789")
        link = server.connect()
        link.sendall(head("POST", "/api/v1/b/leases", "wrong", MIB // 2) + b"{")
        assert b" 401 " in first_line(link), "a large body is not waited for"
        assert b" 401 " in first_line(links[-1])
        for link in links + [link]:
            link.close()
        assert server.ask("GET", "/api/v1/a", None, bearer("reader"))[0] == 200


@case("the history and the log name the principal, and mark what a client calls itself")
def actors():
    lines = LINES + ["chief admin a* chief-* " + digest("chief-token")]
    with Server("--auth-file", auth_file(lines)) as server:
        def batch(token, holder, **op):
            return server.ask("POST", "/api/v1/a/leases", {"holder_id": holder, "ops": [op]}, bearer(token))
        assert server.ask("PUT", "/api/v1/a/t", {}, bearer("admin"))[0] == 201
        assert server.ask("POST", "/api/v1/a/t/lease", {"holder_id": "a-1"}, bearer("holder"))[0] == 201
        # By its token alone a lease is everybody's, so only who owns every holder may name none.
        for kind in ("renew", "release"):
            refused(batch("chief-token", "chief-1", op=kind, id="t", version=1, holder_id=None), 403, "forbidden")
        assert batch("admin", "x", op="renew", id="t", version=1, holder_id=None)[0] == 200
        assert batch("holder", "a-1", op="release", id="t", reason="forced")[0] == 200
        last = server.ask("GET", "/api/v1/a/history", None, bearer("admin"))[2][-1]
        assert (last["reason"], last["actor"]) == ("done", ""), last
        assert batch("holder", "a-1", op="acquire", id="t")[2][0]["outcome"] == "ok"
        assert batch("chief-token", "boss-of-ops", op="force_now", id="t")[2][0]["outcome"] == "ok"
        last = server.ask("GET", "/api/v1/a/history", None, bearer("admin"))[2][-1]
        assert (last["reason"], last["actor"]) == ("forced", "chief (as boss-of-ops)"), last
        until(30, "it is logged", lambda: len(logged(server, "admin_request")) >= 2)
        line = logged(server, "admin_request")[1]
        assert line["actor"] == "chief (as boss-of-ops)" and line["target"] == "t" and line["op"] == "force", line
        # Whatever only an admin may do is in the log, and with its name in the history where there is a change.
        path = "/api/v1/a/"
        for method, where, body in [
                ("PUT", "p1", {}), ("PUT", "p1", {"exec": "true"}), ("PUT", "p2", {}),
                ("PUT", "p1/pin", {"instance": "a-1", "actor": "ann"}), ("DELETE", "p1/pin", None), ("DELETE", "p1", None)]:
            assert server.ask(method, path + where, body, bearer("chief-token"))[0] in (200, 201, 204), where
        edits = [{"action": "put", "target": {"id": "p1"}}, {"action": "pause", "target": {"id": "p2"}},
                 {"action": "pin", "target": {"id": "p1"}, "pin": {"instance": "a-1", "actor": "alice"}},
                 {"action": "pin", "target": {"id": "p2"}, "pin": {"instance": "a-1", "actor": "mallory"}},
                 {"action": "remove", "target": {"id": "p1"}}]
        assert server.ask("POST", "/api/v1/a", {"edits": edits}, bearer("chief-token"))[0] == 200
        assert server.ask("POST", path + "forget", {"ids": ["p1"]}, bearer("chief-token"))[0] == 200
        assert server.ask("POST", path + "forget", {"unregistered": True}, bearer("chief-token"))[0] == 200
        assert batch("chief-token", "chief-1", op="ask", id="t", ask=1)[0] == 200
        assert server.ask("DELETE", path + "nodes/chief-1", None, bearer("chief-token"))[0] == 204
        found = [(entry["target"], entry["event"].split("_")[1], entry["actor"])
                 for entry in server.ask("GET", path + "history", None, bearer("admin"))[2] if entry["target"] in ("p1", "p2")]
        assert found == [("p1", "added", "chief"), ("p1", "changed", "chief"), ("p2", "added", "chief"),
                         ("p1", "changed", "chief (as ann)"), ("p1", "changed", "chief"), ("p1", "removed", "chief"),
                         ("p1", "added", "chief"), ("p2", "changed", "chief"), ("p1", "changed", "chief (as alice)"),
                         ("p2", "changed", "chief (as mallory)"), ("p1", "removed", "chief")], found
        wanted = [("put", "t", 1), ("force", "t", 1), ("put", "p1", 1), ("put", "p1", 1), ("put", "p2", 1), ("pin", "p1", 1),
                  ("unpin", "p1", 1), ("remove", "p1", 1), ("put", "p1", 5), ("forget", "p1", 1),
                  ("forget_unregistered", "", 0), ("ask", "t", 1), ("leave", "chief-1", 1)]
        until(30, "all are logged", lambda: len(logged(server, "admin_request")) >= len(wanted))
        lines = [(line["op"], line["target"], line["count"]) for line in logged(server, "admin_request")]
        assert lines == wanted, lines
        assert {line["actor"].split(" ")[0] for line in logged(server, "admin_request")} == {"boss", "chief"}
    with Server("--auth-file", auth_file(["oops admin * * " + digest("")]), wait=False) as server:
        assert server.process.wait(60) != 0 and "empty token" in server.said(), server.said()
    group = auth_file()
    os.chmod(group, 0o660)
    with Server("--auth-file", group, wait=False) as server:
        assert server.process.wait(60) != 0 and "g-w" in server.said(), server.said()


@case("a name that is too long for the history is cut between two characters")
def long_actors():
    lines = LINES + ["chief admin a* chief-* " + digest("chief-token")]
    with Server("--auth-file", auth_file(lines)) as server:
        for pad in range(3):
            target = "p%d" % pad
            actor = "chief-" + "x" * pad + "\u20ac" * 82
            assert server.ask("PUT", "/api/v1/a/" + target, {}, bearer("chief-token"))[0] == 201
            assert server.ask("POST", "/api/v1/a/%s/lease" % target, {"holder_id": "a-1"}, bearer("holder"))[0] == 201
            pin = {"instance": "a-1", "actor": actor}
            assert server.ask("PUT", "/api/v1/a/%s/pin" % target, pin, bearer("chief-token"))[0] == 204
            body = {"holder_id": actor, "ops": [{"op": "force_now", "id": target}]}
            answer = server.ask("POST", "/api/v1/a/leases", body, bearer("chief-token"))
            assert answer[0] == 200 and answer[2][0]["outcome"] == "ok", answer
            last = server.ask("GET", "/api/v1/a/history", None, bearer("admin"))[2][-1]["actor"]
            assert last.startswith("chief (as %s\u20ac" % actor[:6 + pad]) and last.endswith("\u20ac)"), last
            assert 250 <= len(last.encode()) <= 255, last
            pinned = server.ask("GET", "/api/v1/a?id=" + target, None, bearer("admin"))[2][0]["pin"]["actor"]
            assert pinned == last, pinned


@case("a renewal under a token that was never granted keeps nobody out of other namespaces")
def proofs():
    with Server("--auth-file", auth_file()) as server:
        team = Team(server)

        def renew(token, namespace, holder, version):
            op = {"op": "renew", "id": "x", "version": version, "ttl_ms": 86400000}
            body = {"holder_id": holder, "ops": [op]}
            return server.ask("POST", "/api/v1/%s/leases" % namespace, body, bearer(token))[2][0]["outcome"]
        assert renew("holder", "a", "a-1", 77) == "lost"
        body = {"holder_id": "a-1", "version": 77, "ttl_ms": 86400000}
        assert server.ask("POST", "/api/v1/a/x/lease/renew", body, bearer("holder"))[0] == 404
        team.renew()
        assert server.ask("PUT", "/api/v1/b/u", {}, bearer("admin"))[0] == 201
        assert server.ask("POST", "/api/v1/b/u/lease", {"holder_id": "b-2"}, bearer("admin"))[0] == 201
        # Who is allowed everywhere may say that the store has lost something.
        assert renew("admin", "b", "b-3", 77) == "ok"
        assert server.ask("PUT", "/api/v1/b/v", {}, bearer("admin"))[0] == 201
        assert server.ask("POST", "/api/v1/b/v/lease", {"holder_id": "b-2"}, bearer("admin"))[0] == 409


@case("an agent's metrics are read beside clients that never finish a request, and not by pages of other sites")
def exporter():
    with tempfile.TemporaryDirectory(dir=WORK.name) as place:
        with open(place + "/targets", "w", encoding="ascii") as file:
            file.write("t\n")
        with open(place + "/log", "wb") as log, subprocess.Popen(
                [TENURE, "agent", "--store", "sqlite:%s/l.db" % place, "--targets", "file:%s/targets" % place, "--poll",
                 "exec:true", "--metrics", "0", "--log-format", "json"], stderr=log, stdout=subprocess.DEVNULL) as agent:
            def address():
                with open(place + "/log", encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file if "metrics_served" in line]
                return lines and ("127.0.0.1", int(lines[0]["address"].rsplit(":", 1)[1]))
            try:
                at = until(10, "it serves metrics", address)
                links = [socket.create_connection(at, 60) for _ in range(40)]
                for link in links:
                    try:
                        link.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                    except OSError:
                        pass
                with socket.create_connection(at, 60) as link:
                    link.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    assert b" 200 " in first_line(link)
                for link in links:
                    link.close()
                for host, status in (("127.0.0.1:9", b" 200 "), ("[::1]", b" 200 "), ("evil.example", b" 421 "),
                                     ("127.0.0.1.evil.example", b" 421 ")):
                    with socket.create_connection(at, 60) as link:
                        link.sendall(b"GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode())
                        text = first_line(link)
                    assert status in text, (host, text)
            finally:
                agent.send_signal(signal.SIGTERM)
                agent.wait(60)


class Limiting(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    left, seen = 2, []

    def do_GET(self):
        Limiting.seen.append(time.monotonic())
        late = Limiting.left > 0
        Limiting.left -= 1
        text = b'{"error":{"code":"rate_limited","message":"too much"}}' if late else b"[]"
        self.send_response(429 if late else 200)
        if late:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@case("our own client waits and tries again, within the time that it has")
def client():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Limiting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://127.0.0.1:%d" % server.server_port
    done = subprocess.run([TENURE, "nodes", "--store", url + "?timeout=20s"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert len(Limiting.seen) >= 3 and Limiting.seen[2] - Limiting.seen[0] > 1.5, Limiting.seen
    Limiting.left = 1000
    done = subprocess.run([TENURE, "nodes", "--store", url + "?timeout=1s"], capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "limits this client" in done.stderr, done
    server.shutdown()


try:
    main()
finally:
    WORK.cleanup()
