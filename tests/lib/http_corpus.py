"""A raw corpus of malformed HTTP requests against `tenure serve`: request lines, headers, bodies, attempts to smuggle a
second request. Each is answered with 4xx (or 5xx where HTTP says so) or the connection is closed; never with success
where that would be wrong, never twice for one, and the server goes on serving. Run by server_corpus.sh; with a program
that was built with sanitizers, a report of theirs is a failure, too."""
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.environ["TENURE_SOURCE"] + "/tests/lib")
from rest import Server, case, main  # noqa: E402  pylint: disable=wrong-import-position

HOST = b"Host: localhost\r\n"
RENEW = b"POST /api/v1/c/t/lease/renew HTTP/1.1\r\n" + HOST
BODY = b'{"holder_id":"a"}'
SMUGGLED = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

# Answered with 4xx or 5xx, or closed; never with success.
MALFORMED = [
    b"\r\n\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET /healthz\r\n\r\n", b"GET  /healthz  HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n", b"GET /healthz HTTP/1.1x\r\n" + HOST + b"\r\n",
    b"GET /healthz FTP/1.1\r\n" + HOST + b"\r\n", b"get /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"GET http://evil/ HTTP/1.1\r\nHost: evil\r\n\r\n",
    b"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n", b"TRACE /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /%zz HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /api/v1/c/%2e%2e/lease HTTP/1.1\r\n" + HOST + b"\r\n", b"GET //healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    b"X" * 20000 + b" / HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost@evil\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1.evil\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: [::1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 9000 + b"\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 2000 + b"\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"".join(b"X%d: y\r\n" % i for i in range(3000)) + b"\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"no colon here\r\n\r\n",
    b"GET /api/v1/c?limit=%00 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /api/v1/c?" + b"a&" * 5000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    RENEW + b"Content-Length: -1\r\n\r\n" + BODY, RENEW + b"Content-Length: 17x\r\n\r\n" + BODY,
    RENEW + b"Content-Length: +17\r\n\r\n" + BODY, RENEW + b"Content-Length: 0x11\r\n\r\n" + BODY,
    RENEW + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY, RENEW + b"Content-Length: 17, 17\r\n\r\n" + BODY,
    RENEW + b"Content-Length: 17\r\nContent-Length: 17\r\n\r\n" + BODY,
    RENEW + b"Content-Length: 17\r\nContent-Length: 0\r\n\r\n" + BODY, RENEW + b"Content-Length: \r\n\r\n" + BODY,
    RENEW + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    RENEW + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
    RENEW + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n", RENEW + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    RENEW + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", RENEW + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    RENEW + b"Transfer-Encoding: identity\r\nContent-Length: 17\r\n\r\n" + BODY,
    RENEW + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", RENEW + CHUNKED + b"\r\nzz\r\n" + BODY + b"\r\n0\r\n\r\n",
    RENEW + CHUNKED + b"\r\n-1\r\n" + BODY + b"\r\n0\r\n\r\n", RENEW + CHUNKED + b"\r\nffffffffffffffff\r\n" + BODY,
    RENEW + CHUNKED + b"\r\n10000000000000011\r\n" + BODY + b"\r\n0\r\n\r\n",
    RENEW + CHUNKED + b"\r\n11\r\n" + BODY + b"XX0\r\n\r\n", RENEW + CHUNKED + b"\r\n" + b"0" * 20000,
    RENEW + CHUNKED + b"\r\n11;" + b"x" * 20000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    RENEW + LENGTH % 17 + b"\r\n" + BODY[:5], RENEW + LENGTH % 17 + b"\r\n" + b"\x00" * 17,
    RENEW + LENGTH % 4 + b"\r\n\xff\xfe\xff\xfe", RENEW + LENGTH % 17 + b"Expect: 200-maybe\r\n\r\n" + BODY[:3],
    RENEW + b"Content-Type: " + b"x" * 4000 + b"\r\n" + LENGTH % 17 + b"\r\n" + BODY,
    RENEW + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n" + LENGTH % 17 + b"\r\n" + BODY,
]
# What some accept and some do not: whatever is said, the second request in it is not taken for one, and nothing breaks.
DOUBTFUL = [
    b"GET /\x00healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /healthz\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /healthz HTTP/1.1\n" + b"Host: localhost\n\n", b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    b"GET /healthz HTTP/1.1\rHost: localhost\r\r", b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"X\x00Y: z\r\n\r\n", b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b": empty\r\n\r\n", b"GET /healthz?\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"\xff\xfe: \x80\r\n\r\n", b"\r\nGET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /healthz#x HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /healthz;x HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /healthz HTTP/1.1\r\n" + HOST + LENGTH % len(SMUGGLED) + b"\r\n" + SMUGGLED,
    b"HEAD /healthz HTTP/1.1\r\n" + HOST + LENGTH % len(SMUGGLED) + b"\r\n" + SMUGGLED,
    RENEW + CHUNKED + b"\r\n11\n" + BODY + b"\n0\n\n", RENEW + CHUNKED + b"\r\n0\r\nX: y\r\nContent-Length: 5\r\n\r\n",
    RENEW + CHUNKED + b"\r\n11;a=b\r\n" + BODY + b"\r\n0\r\n\r\n", RENEW + b"Transfer-Encoding : chunked\r\n" + LENGTH % 17 + b"\r\n" + BODY,
    RENEW + b"Content-Length : 17\r\n\r\n" + BODY, RENEW + b"Content-Length:17\r\n\r\n" + BODY, RENEW + b"\r\n",
    b"GET /api/v1/c/events HTTP/1.1\r\n" + HOST + b"Last-Event-ID: -5\r\nConnection: close\r\n\r\n",
    b"GET /api/v1/c/events?last_event_id=%ff HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
]


def statuses(answer):
    return [int(s) for s in re.findall(rb"HTTP/1\.[01] (\d\d\d) ", answer)]


def all_of(function, items):
    """Side by side: most of the time is spent in waiting for what does not come."""
    def problem(item):
        try:
            function(item)
            return None
        except AssertionError as error:
            return str(error)
    with ThreadPoolExecutor(16) as pool:
        problems = [p for p in pool.map(problem, items) if p]
    assert not problems, "\n".join(problems)


def check(server, data, success, timeout=0.7):
    found = statuses(server.raw(data, timeout=timeout, shut=True))
    final = [s for s in found if s != 100]
    assert server.is_alive(), ("it is gone after", data[:200], server.said()[-3000:])
    assert success or all(s >= 400 for s in final), (data[:200], found)
    if min(final, default=0) >= 400 and len(set(final)) == 1:
        final = final[:1]  # libmicrohttpd 0.9.75 sends the head of its own errors twice, and closes
    smuggled = b"openapi.json" in data
    assert len(final) <= (1 if smuggled or not success else 2), (data[:200], "was answered", found)
    return found


def serves(server):
    assert server.ask("GET", "/healthz")[0] == 200
    assert server.ask("POST", "/api/v1/c/t/lease/renew", {"holder_id": "a"})[0] == 200


def start():
    env = dict(os.environ, ASAN_OPTIONS="abort_on_error=1:detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
    server = Server("--request-timeout", "2s", env=env)
    server.ask("PUT", "/api/v1/c/t")
    assert server.ask("POST", "/api/v1/c/t/lease", {"holder_id": "a", "ttl_ms": 600000})[0] == 201
    return server


@case("malformed requests are refused, and the server goes on")
def malformed():
    with start() as server:
        all_of(lambda data: check(server, data, False), MALFORMED)
        serves(server)
        assert server.stop() == 0, server.said()[-3000:]


@case("requests that are understood in more than one way hide no second one")
def doubtful():
    with start() as server:
        all_of(lambda data: check(server, data, True), DOUBTFUL)
        serves(server)
        assert server.stop() == 0, server.said()[-3000:]


@case("every request cut anywhere, and then not ended, does no harm")
def cut():
    request = RENEW + b"Content-Type: application/json\r\n" + LENGTH % 17 + b"\r\n" + BODY
    with start() as server:
        links = []
        for end in range(len(request)):
            link = server.connect()
            link.sendall(request[:end])
            links.append(link)
        serves(server)
        for number, link in enumerate(links):
            if number % 2:
                link.close()
        serves(server)
        for link in links:
            link.close()
        serves(server)
        assert server.stop() == 0


@case("random changes to good and bad requests do no harm")
def mutations():
    seed = int(os.environ.get("HTTP_SEED", random.randrange(1 << 32)))
    count = int(os.environ.get("HTTP_COUNT", 600))
    print("# HTTP_SEED=%d" % seed)
    chance = random.Random(seed)
    good = [RENEW + LENGTH % 17 + b"\r\n" + BODY, RENEW + CHUNKED + b"\r\n11\r\n" + BODY + b"\r\n0\r\n\r\n",
            b"GET /api/v1/c?leased=true&limit=3&after=a%2Fb HTTP/1.1\r\n" + HOST + b"\r\n"]
    with start() as server:
        made = []
        for _ in range(count):
            data = bytearray(chance.choice(good + MALFORMED[:60] + DOUBTFUL))
            for _ in range(chance.choice((1, 1, 2, 5, 20))):
                at = chance.randrange(len(data) + 1)
                kind = chance.randrange(4)
                if kind == 0 and at < len(data):
                    data[at] = chance.randrange(256)
                elif kind == 1:
                    data[at:at] = chance.choice((b"\r\n", b"\n", b"\x00", b" ", b":", b"%", b"\r", b"0" * 30, b"\xff"))
                elif kind == 2:
                    del data[at:at + chance.randrange(1, 9)]
                else:
                    data[at:at] = data[:chance.randrange(1, 60)]
            made.append(bytes(data))

        def send(data):
            try:
                server.raw(data, timeout=0.5, shut=True)
            except OSError:
                pass
            assert server.is_alive(), ("it is gone after", data, server.said()[-3000:])
        all_of(send, made)
        serves(server)
        assert server.stop() == 0, server.said()[-3000:]


main()
