"""`tenure serve`: every request of the REST interface, with its status codes and fields, right and wrong. Run by
server_rest.sh."""
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.environ["TENURE_SOURCE"] + "/tests/lib")
from rest import Server, case, is_time, main, refused  # noqa: E402  pylint: disable=wrong-import-position

SERVER = Server()
COUNT = [0]
DOCUMENT = {}


def part(document, schema):
    """A schema, or what it refers to, which must be there."""
    while "$ref" in schema:
        found = document
        for word in schema["$ref"].split("/")[1:]:
            found = found[word]
        schema = found
    return schema


def fits(document, schema, value):
    """Whether a value has the members that a schema requires, and no others than it describes, of their types."""
    schema = part(document, schema)
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    if "oneOf" in schema:
        return any(fits(document, one, value) for one in schema["oneOf"])
    if value is None:
        return schema.get("nullable", False) or not schema
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if schema.get("type") == "array":
        return all(fits(document, schema["items"], item) for item in value)
    if "properties" not in schema:
        return True
    known = schema["properties"]
    return set(schema.get("required", ())) <= set(value) <= set(known) and \
        all(fits(document, known[name], item) for name, item in value.items())


def is_described(method, path, status, body):
    """Whether the description has this answer, as far as it is JSON."""
    for template, methods_of in DOCUMENT["paths"].items():
        about = methods_of.get(method.lower().replace("head", "get"))
        if about and re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path.split("?")[0]):
            content = part(DOCUMENT, about["responses"][str(status)]).get("content", {})
            return "application/json" not in content or fits(DOCUMENT, content["application/json"]["schema"], body)
    return True


def ask(method, path, *more):
    """Each answer of every case is one that is described."""
    answer = SERVER.ask(method, path, *more)
    DOCUMENT.update(DOCUMENT or SERVER.ask("GET", "/openapi.json")[2])
    if answer[0] not in (405, 503) and isinstance(answer[2], (dict, list)) and path != "/openapi.json":
        assert is_described(method, path, answer[0], answer[2]), (method, path, answer)
    return answer


ASK = ask


def fresh():
    """A namespace that no other case uses."""
    COUNT[0] += 1
    return "ns%d" % COUNT[0]


def put(ns, target, body=None):
    status, _, _ = ASK("PUT", "/api/v1/%s/%s" % (ns, target), body)
    assert status in (200, 201), status


def lease(ns, target):
    return "/api/v1/%s/%s/lease" % (ns, target)


def held(ns, target, holder="h", **more):
    put(ns, target)
    status, _, body = ASK("POST", lease(ns, target), {"holder_id": holder, **more})
    assert status == 201, (status, body)
    return body


@case("the curl lines of seed 004 work as they are printed")
def seed_lines():
    put("scenes", "scene-01")
    script = """
manager=%s
curl -sS $manager/api/v1/scenes?leased=false
curl -sS -X POST $manager/api/v1/scenes/scene-01/lease \\
  -d '{"holder_id": "tracker-0"}'
curl -sS -X POST $manager/api/v1/scenes/scene-01/lease/renew \\
  -d '{"holder_id": "tracker-0"}'
curl -sS $manager/api/v1/scenes/scene-01/lease
curl -sS -w '%%{http_code}\\n' -X DELETE $manager/api/v1/scenes/scene-01/lease \\
  -d '{"holder_id": "tracker-0"}'
""" % SERVER.url
    lines = subprocess.run(["sh", "-c", script], check=True, stdout=subprocess.PIPE).stdout.decode().splitlines()
    free, acquired, renewed, read, released = lines
    free = json.loads(free)
    assert free[0]["scene_id"] == free[0]["id"] == "scene-01" and free[0]["version"] == 0, free
    acquired, renewed, read = json.loads(acquired), json.loads(renewed), json.loads(read)
    assert acquired["version"] == renewed["version"] == read["version"] == 1, lines
    assert is_time(acquired["expires_at"]) and is_time(renewed["expires_at"]), lines
    assert read["holder_id"] == "tracker-0" and released == "204", lines
    # The fencing check of the seed, at its address without /api/v1.
    found = subprocess.run(["curl", "-sSL", SERVER.url + "/scenes/scene-01/lease"], check=True, stdout=subprocess.PIPE)
    assert json.loads(found.stdout)["version"] == 1


@case("a target is registered, changed, listed and removed")
def targets():
    ns = fresh()
    status, headers, body = ASK("PUT", "/api/v1/%s/a" % ns, {"url": "http://x/", "every": "10s", "spec": {"k": [1]}})
    assert (status, body) == (201, {"id": "a"}) and headers["content-type"] == "application/json"
    assert ASK("PUT", "/api/v1/%s/a" % ns, {"id": "a", "paused": True})[0] == 200
    status, headers, rows = ASK("GET", "/api/v1/" + ns)
    assert status == 200 and headers["content-type"] == "application/json" and "link" not in headers
    assert rows == [{"id": "a", "holder_id": None, "version": 0, "expires_at": None, "paused": True,
                     "registered": True}], rows
    assert ASK("GET", "/api/v1/%s?leased=false" % ns)[2] == []  # paused ones are left out
    assert ASK("DELETE", "/api/v1/%s/a" % ns)[::2] == (204, "")
    refused(ASK("DELETE", "/api/v1/%s/a" % ns), 404, "unknown_target")
    assert ASK("GET", "/api/v1/" + ns)[2] == []


@case("a body that is no target is refused")
def bad_targets():
    ns = fresh()
    for body in ({"id": "b"}, {"every": "10"}, {"every": 5}, {"nonsense": 1}, {"paused": "yes"}, [1], '"x"', "{", "null"):
        refused(ASK("PUT", "/api/v1/%s/a" % ns, body), 400, "bad_request")
    assert ASK("GET", "/api/v1/" + ns)[2] == []


@case("many targets are edited at once, all or none")
def edits():
    ns = fresh()
    path = "/api/v1/" + ns
    some = [{"action": "put", "target": {"id": "a"}}, {"action": "put", "target": {"id": "b/c"}}]
    assert ASK("POST", path, {"edits": some})[::2] == (200, [{"id": "a", "found": False}, {"id": "b/c", "found": False}])
    for wrong in ([], [{"action": "put", "target": {"id": "c"}}, {"action": "burn", "target": {"id": "a"}}],
                  [{"action": "put", "target": {"id": "x y"}}], [1], "x", [{"action": "put", "target": {"id": "nodes"}}]):
        refused(ASK("POST", path, {"edits": wrong}), 400, "bad_request")
    pause = [{"action": "pause", "target": {"id": "a"}}, {"action": "remove", "target": {"id": "b/c"}}]
    assert [e["found"] for e in ASK("POST", path, {"edits": pause})[2]] == [True, True]
    assert [(r["id"], r["paused"]) for r in ASK("GET", path)[2]] == [("a", True)]


@case("targets that are free and not registered are forgotten, and their tokens do not go down")
def forgetting():
    ns = fresh()
    path = "/api/v1/%s/forget" % ns
    for _ in range(3):
        last = held(ns, "gone", "a")
        ASK("DELETE", lease(ns, "gone"), {"holder_id": "a"})
    ASK("DELETE", "/api/v1/%s/gone" % ns)
    held(ns, "held", "a")
    put(ns, "registered")
    put(ns, "forget")  # a target may have this name
    assert ASK("POST", path, {"ids": ["gone", "held", "registered", "never"]})[::2] == (
        200, [{"id": "gone", "outcome": "forgotten"}, {"id": "held", "outcome": "held"},
              {"id": "registered", "outcome": "registered"}, {"id": "never", "outcome": "unknown"}])
    refused(ASK("GET", lease(ns, "gone")), 404, "unknown_target")
    for wrong in ({}, {"ids": []}, {"ids": "gone"}, {"ids": [1]}, {"ids": ["x y"]}, {"unregistered": False}):
        refused(ASK("POST", path, wrong), 400, "bad_request")
    assert ASK("POST", path, {"unregistered": True})[::2] == (200, {"forgotten": 0, "after": None})
    ASK("DELETE", lease(ns, "held"), {"holder_id": "a"})
    ASK("DELETE", "/api/v1/%s/held" % ns)
    assert ASK("POST", path, {"unregistered": True})[::2] == (200, {"forgotten": 1, "after": None})
    assert sorted(r["id"] for r in ASK("GET", "/api/v1/" + ns)[2]) == ["forget", "registered"]
    put(ns, "gone")
    assert held(ns, "gone", "b")["version"] > last["version"]


@case("a lease is acquired, read, renewed and given back, with exactly these fields")
def whole_life():
    ns = fresh()
    put(ns, "t")
    status, _, body = ASK("GET", lease(ns, "t"))
    assert status == 200 and (body["holder_id"], body["version"], body["expires_at"]) == (None, 0, None), body
    status, headers, body = ASK("POST", lease(ns, "t"), {"holder_id": "a", "ttl_ms": 20000})
    assert status == 201 and sorted(body) == ["expires_at", "ttl_ms", "version"], body
    assert body["version"] == 1 and body["ttl_ms"] == 20000 and is_time(body["expires_at"])
    assert headers["content-type"] == "application/json" and headers["cache-control"] == "no-store"
    status, _, body = ASK("GET", lease(ns, "t"))
    assert (body["holder_id"], body["version"]) == ("a", 1) and is_time(body["expires_at"]), body
    status, _, body = ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "a"})
    assert status == 200 and (body["version"], body["ttl_ms"]) == (1, 20000), "the TTL of the acquire is kept"
    status, _, body = ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "a", "version": 1, "ttl_ms": 40000})
    assert status == 200 and body["ttl_ms"] == 40000
    row = ASK("GET", "/api/v1/%s?leased=true" % ns)[2][0]
    assert row["holder_id"] == "a" and row["version"] == 1 and is_time(row["expires_at"]), row
    assert ASK("DELETE", lease(ns, "t"), {"holder_id": "a"})[::2] == (204, "")
    assert ASK("GET", lease(ns, "t"))[2]["holder_id"] is None
    status, _, body = ASK("POST", lease(ns, "t"), {"holder_id": "a"})
    assert (status, body["version"], body["ttl_ms"]) == (201, 2, 30000), "the default TTL"


@case("what is held, lost or unknown is said with who has it")
def outcomes():
    ns = fresh()
    held(ns, "t", "a")
    for who in ("b", "a"):  # itself too: the single POST is no repetition
        error = refused(ASK("POST", lease(ns, "t"), {"holder_id": who}), 409, "held")
        assert (error["holder_id"], error["version"]) == ("a", 1) and 0 < error["remaining_ms"] <= 30000
    refused(ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "b"}), 404, "lost")
    refused(ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "a", "version": 2}), 404, "lost")
    refused(ASK("POST", lease(ns, "u") + "/renew", {"holder_id": "a"}), 404, "lost")
    refused(ASK("GET", lease(ns, "u")), 404, "unknown_target")
    refused(ASK("POST", lease(ns, "u"), {"holder_id": "a"}), 404, "unknown_target")
    assert ASK("GET", "/api/v1/" + ns)[2][0]["holder_id"] == "a"


@case("a release ends one's own lease, and nobody else's")
def releases():
    ns = fresh()
    held(ns, "t", "a")
    error = refused(ASK("DELETE", lease(ns, "t"), {"holder_id": "b"}), 409, "held")
    assert error["holder_id"] == "a" and error["version"] == 1
    error = refused(ASK("DELETE", lease(ns, "t") + "?holder_id=b"), 409, "held")
    assert ASK("DELETE", lease(ns, "t"), {"holder_id": "a", "version": 9})[0] == 204  # not that one's
    assert ASK("DELETE", lease(ns, "t") + "?holder_id=a&version=9")[0] == 204
    assert ASK("GET", lease(ns, "t"))[2]["holder_id"] == "a", "a version in the query counts"
    for wrong in ("0", "-1", "x", "9007199254740993", "", "1e3"):
        refused(ASK("DELETE", lease(ns, "t") + "?holder_id=a&version=" + wrong), 400, "bad_request")
    assert ASK("DELETE", lease(ns, "t") + "?holder_id=a&version=1")[0] == 204
    assert ASK("GET", lease(ns, "t"))[2]["holder_id"] is None
    assert ASK("DELETE", lease(ns, "t"), {"holder_id": "a"})[0] == 204  # it was not held
    assert ASK("DELETE", lease(ns, "t"), {"holder_id": "nobody"})[0] == 204
    refused(ASK("DELETE", lease(ns, "t")), 400, "bad_request", "holder_id")


@case("a lease ends when its time is over")
def expiry():
    ns = fresh()
    held(ns, "t", "a", ttl_ms=300)
    time.sleep(0.35)
    refused(ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "a"}), 404, "lost")
    assert ASK("POST", lease(ns, "t"), {"holder_id": "b"})[2]["version"] == 2


@case("numbers that are none, or out of bounds, are refused")
def numbers():
    ns = fresh()
    put(ns, "t")
    for ttl in ("0", "-1", "99", "1e3", "100.0", "NaN", "Infinity", '"30s"', '"1000"', "true", "[]", "{}",
                "31622400001", "9223372036854775807", "9223372036854775808", "1" * 400):
        refused(ASK("POST", lease(ns, "t"), '{"holder_id":"a","ttl_ms":%s}' % ttl), 400, "bad_request")
        refused(ASK("POST", lease(ns, "t") + "/renew", '{"holder_id":"a","ttl_ms":%s}' % ttl), 400, "bad_request")
        refused(ASK("PUT", "/api/v1/%s/nodes/n" % ns, '{"ttl_ms":%s}' % ttl), 400, "bad_request")
    for version in ("0", "-1", "9007199254740992", "9007199254740993", "18446744073709551617", "1.0", '"1"', "1e0",
                    "null"):
        refused(ASK("POST", lease(ns, "t") + "/renew", '{"holder_id":"a","version":%s}' % version), 400, "bad_request")
        refused(ASK("DELETE", lease(ns, "t"), '{"holder_id":"a","version":%s}' % version), 400, "bad_request")
    assert ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "a", "version": 9007199254740991})[0] == 404
    assert ASK("GET", lease(ns, "t"))[2]["version"] == 0, "nothing was granted"


@case("names that are none are refused, in paths and in bodies")
def names():
    ns = fresh()
    put(ns, "t")
    for path in ("a%20b", "a%0Ab", "..", "%2e%2e", ".", "a%2F%2e%2e%2Fb", "a%2F%2Fb", "%2Fa", "a%2F", "%ff", "%zz", "%",
                 "%0", "a%00b", "x" * 256, "caf%C3%A9", "a'b", "%25"):
        refused(ASK("GET", lease(ns, path)), 400, "bad_request")
        refused(ASK("PUT", "/api/v1/%s/%s" % (ns, path)), 400, "bad_request")
    for path in ("tenure", "a%2Fb", "n" * 64, "a%20b", "%2e%2e%2f", "a:b"):
        refused(ASK("GET", "/api/v1/" + path), 400, "bad_request")
    for word in ("nodes", "leases", "events", "history"):
        assert ASK("PUT", "/api/v1/%s/%s" % (ns, word))[0] in (400, 404, 405)
        assert ASK("GET", lease(ns, word))[0] in (400, 404, 405)
        refused(ASK("POST", "/api/v1/%s/leases" % ns, {"holder_id": "a", "ops": [{"op": "acquire", "id": word}]}), 400,
                "bad_request")
    for holder in ('""', '"%s"' % ("h" * 256), '"a\\nb"', '"a\\u0000b"', "1", "null", "[]", '"a\\u001bb"', '"\\u007f"'):
        refused(ASK("POST", lease(ns, "t"), '{"holder_id":%s}' % holder), 400, "bad_request")
    refused(ASK("POST", lease(ns, "t"), b'{"holder_id":"\xff\xfe"}'), 400, "bad_request")
    refused(ASK("POST", lease(ns, "t"), b'{"holder_id":"\xed\xa0\x80"}'), 400, "bad_request")
    refused(ASK("PUT", "/api/v1/%s/nodes/%s" % (ns, "i" * 256)), 400, "bad_request")
    assert [r["id"] for r in ASK("GET", "/api/v1/" + ns)[2]] == ["t"]
    assert ASK("GET", "/api/v1/%s?leased=true" % ns)[2] == []


@case("an id with a slash and the longest ids work")
def odd_names():
    ns = fresh()
    for target, path in (("a/b", "a%2Fb"), ("x" * 255, "x" * 255), ("~:@+-._", "~:@+-._"), ("lease", "lease"),
                         ("/".join("x" * 128), "%2F".join("x" * 128))):
        put(ns, path)
        assert ASK("POST", lease(ns, path), {"holder_id": "h" * 255})[0] == 201
        assert ASK("GET", "/api/v1/" + ns)[2] and ASK("GET", lease(ns, path))[2]["holder_id"] == "h" * 255
        assert target in [r["id"] for r in ASK("GET", "/api/v1/" + ns)[2]]
    assert ASK("POST", lease(ns, "~:@+-._"), {"holder_id": "x"})[0] == 409


@case("a body that is not one JSON object is refused")
def bodies():
    ns = fresh()
    put(ns, "t")
    good = '{"holder_id":"a"}'
    deep = '{"holder_id":"a","x":%s}'
    for body in ("{", good[:-1], good + good, good + "x", "[]", "1", '"a"', "null", "{'holder_id':'a'}", good.replace(":", "="),
                 '{"holder_id":"a","holder_id":"b"}', deep % ("[" * 16 + "]" * 16), deep % ("[" * 30000),
                 deep % ('{"a":' * 20 + "1" + "}" * 20), "holder_id=a", b"\xef\xbb\xbf" + good.encode(), b"\x00", ""):
        refused(ASK("POST", lease(ns, "t"), body), 400, "bad_request")
    assert ASK("PUT", "/api/v1/%s/t" % ns, '{"spec":%s}' % ("[" * 15 + "]" * 15))[0] == 200
    # A member that nobody knows may be a mistake in one that somebody does.
    for method, path, body in (("POST", lease(ns, "t"), deep % 1), ("POST", lease(ns, "t") + "/renew", deep % 1),
                               ("DELETE", lease(ns, "t"), deep % 1), ("PUT", "/api/v1/%s/nodes/i" % ns, '{"wieght":2}'),
                               ("POST", "/api/v1/%s/leases" % ns, '{"holder_id":"a","ops":[{"op":"read","id":"t"}],"x":1}'),
                               ("POST", "/api/v1/%s/leases" % ns, '{"holder_id":"a","ops":[{"op":"read","id":"t","x":1}]}')):
        refused(ASK(method, path, body), 400, "bad_request", "unknown")
    assert ASK("POST", lease(ns, "t"), good)[0] == 201
    assert ASK("GET", lease(ns, "t"))[2]["holder_id"] == "a"


@case("what an instance says of itself is bounded, and instances are listed in pages")
def instances():
    ns = fresh()
    path = "/api/v1/%s/nodes" % ns
    op = {"op": "announce", "ttl_ms": 60000, "weight": 1, "metadata": "m" * 4096}
    assert ASK("POST", "/api/v1/%s/leases" % ns, {"holder_id": "i-0", "ops": [op]})[0] == 200
    for wrong, text in (({"metadata": "m" * 4097}, "4096"), ({"weight": 1000001}, "weight"), ({"ttl_ms": 86400001}, "86400000")):
        answer = ASK("POST", "/api/v1/%s/leases" % ns, {"holder_id": "i-9", "ops": [dict(op, **wrong)]})
        refused(answer, 400, "bad_request", text)
    for ttl_ms in (0, 31622400000, 31622400001):
        refused(ASK("PUT", path + "/i-9", {"ttl_ms": ttl_ms}), 400, "bad_request", "86400000 on this server")
        answer = ASK("POST", lease(ns, "t"), {"holder_id": "i-9", "ttl_ms": ttl_ms})
        refused(answer, 400, "bad_request", "86400000 on this server")
    for i in range(1, 5):
        assert ASK("PUT", path + "/i-%d" % i, {"ttl_ms": 60000})[0] == 204
    found, after = [], ""
    while after is not None:
        status, headers, rows = ASK("GET", path + "?shares=false&limit=2" + (after and "&after=" + after))
        assert status == 200 and len(rows) <= 2, rows
        found += [row["instance"] for row in rows]
        assert ("link" in headers) == (len(found) < 5), (headers, found)
        after = rows[-1]["instance"] if "link" in headers else None
    odd = fresh()
    names = ["a> \"b\"", "a%/ä", "b"]
    for name in names:
        assert ASK("PUT", "/api/v1/%s/nodes/%s" % (odd, urllib.parse.quote(name, safe="")), {"ttl_ms": 60000})[0] == 204
    url, seen = "/api/v1/%s/nodes?limit=1" % odd, []
    while url:
        _, headers, rows = ASK("GET", url)
        seen += [row["instance"] for row in rows]
        url = headers["link"].split(">")[0][1:] if "link" in headers and len(seen) < 5 else None
    assert sorted(seen) == sorted(names), seen
    assert found == ["i-%d" % i for i in range(5)], found
    for wrong in ("limit=0", "limit=x", "limit=10001", "after=" + "x" * 400):
        refused(ASK("GET", path + "?" + wrong), 400, "bad_request")


@case("a body that is too large is refused before it has come")
def large():
    ns = fresh()
    put(ns, "t")
    padded = '{"holder_id":"a"%s}' % (" " * (64 * 1024 - 17))
    assert len(padded) == 64 * 1024
    assert ASK("POST", lease(ns, "t"), padded)[0] == 201
    refused(ASK("POST", lease(ns, "t"), padded + " "), 413, "too_large")
    refused(ASK("POST", "/api/v1/%s/leases" % ns, " " * (1024 * 1024 + 1)), 413, "too_large")
    answer = SERVER.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
                        % lease(ns, "t").encode(), timeout=3)
    assert answer.startswith(b"HTTP/1.1 413"), answer
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    answer = SERVER.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                        % lease(ns, "t").encode() + chunk * 3 + b"0\r\n\r\n", timeout=5)
    assert answer.startswith(b"HTTP/1.1 413"), answer


@case("JSON is what a body is, whatever usual type it claims; any other type is refused")
def types():
    ns = fresh()
    put(ns, "t")
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON",
                 "application/x-www-form-urlencoded", ""):
        answer = ASK("POST", lease(ns, "t") + "/renew", {"holder_id": "a"}, {"Content-Type": kind} if kind else {})
        refused(answer, 404, "lost")
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x", "application/jsonp", "application"):
        refused(ASK("POST", lease(ns, "t"), {"holder_id": "a"}, {"Content-Type": kind}), 415, "unsupported_type")


@case("a method that a path does not know is refused with those that it knows")
def methods():
    for path, known in (("/api/v1/m", "GET, HEAD, POST"), ("/api/v1/m/t", "PUT, DELETE"), ("/metrics", "GET, HEAD"),
                        ("/api/v1/m/t/lease", "GET, HEAD, POST, DELETE"), ("/api/v1/m/t/lease/renew", "POST"),
                        ("/api/v1/m/leases", "POST"), ("/api/v1/m/nodes", "GET, HEAD"), ("/healthz", "GET, HEAD"),
                        ("/api/v1/m/nodes/i", "PUT, DELETE"), ("/api/v1/m/events", "GET, HEAD"), ("/", "GET, HEAD"),
                        ("/api/v1/m/history", "GET, HEAD"), ("/readyz", "GET, HEAD"), ("/openapi.json", "GET, HEAD")):
        answer = ASK("PATCH", path)
        refused(answer, 405, "method_not_allowed")
        assert answer[1]["allow"] == known, (path, answer[1]["allow"])
        for method in ("GET", "POST", "PUT", "DELETE"):
            if method not in known:
                refused(ASK(method, path), 405, "method_not_allowed")
    for path in ("/nothing", "/scenesx", "/api", "/api/v2/m", "/api/v1/m/t/u", "/apix/v1/m"):
        refused(ASK("GET", path), 404, "not_found")
    refused(ASK("GET", "/api/v1/m/a/b/c/lease"), 400, "bad_request", "%2F")


@case("HEAD is GET without its body")
def heads():
    ns = fresh()
    held(ns, "t", "a")
    for path in ("/", "/metrics", "/healthz", "/readyz", "/openapi.json", "/api/v1/" + ns, lease(ns, "t"),
                 "/api/v1/%s/nodes" % ns, "/api/v1/%s/history" % ns, "/api/v1/%s/events" % ns):
        status, headers, body = ASK("HEAD", path)
        assert status == 200 and body == "", (path, status, body)
        assert headers.get("content-type"), path
    assert ASK("HEAD", lease(ns, "unknown"))[0] == 404


@case("/scenes redirects to the API, with its query, and curl keeps the method")
def redirects():
    put("scenes", "r-1")
    status, headers, _ = ASK("POST", "/scenes/r-1/lease", {"holder_id": "a"})
    assert (status, headers["location"]) == (308, "/api/v1/scenes/r-1/lease")
    assert ASK("GET", "/scenes?leased=false&limit=1&after=a%2Fb")[1]["location"] == \
        "/api/v1/scenes?leased=false&limit=1&after=a%2Fb"
    long = "x" * 1500
    assert ASK("GET", "/scenes/%s/lease" % long)[1]["location"] == "/api/v1/scenes/%s/lease" % long
    found = subprocess.run(["curl", "-sSL", "-X", "POST", SERVER.url + "/scenes/r-1/lease", "-d", '{"holder_id":"a"}'],
                           check=True, stdout=subprocess.PIPE).stdout
    assert json.loads(found)["version"] == 1, found
    found = subprocess.run(["curl", "-sSL", SERVER.url + "/scenes?leased=true"], check=True, stdout=subprocess.PIPE)
    assert "r-1" in [r["scene_id"] for r in json.loads(found.stdout)]


@case("a listing goes page by page, and each target is seen once")
def pages():
    ns = fresh()
    ids = sorted(["t%02d" % i for i in range(20)] + ["a/b+c", "/".join("y" * 128)])
    ASK("POST", "/api/v1/" + ns, {"edits": [{"action": "put", "target": {"id": i}} for i in ids]})
    for query in ("?limit=3", "?limit=3&leased=false", "?limit=22", "?limit=1&registered=true"):
        path, seen = "/api/v1/" + ns + query, []
        for _ in range(40):
            status, headers, rows = ASK("GET", path)
            assert status == 200
            seen += [r["id"] for r in rows]
            if "link" not in headers:
                break
            path = re.fullmatch(r'<(/[^>]*)>; rel="next"', headers["link"]).group(1)
        assert seen == ids, (query, seen)
    for wrong in ("limit=0", "limit=-1", "limit=10001", "limit=x", "limit=1x", "limit=", "limit=%zz", "leased=maybe",
                  "after=a%20b", "after=..", "after=%00", "limit=18446744073709551617", "leased="):
        refused(ASK("GET", "/api/v1/%s?%s" % (ns, wrong)), 400, "bad_request")


@case("certain targets are read by their ids, in one request")
def certain():
    ns = fresh()
    path = "/api/v1/" + ns
    ASK("POST", path, {"edits": [{"action": "put", "target": {"id": i}} for i in ("a", "a/b+c", "b", "gone")]})
    held(ns, "b", "h")
    assert ASK("DELETE", path + "/gone")[0] == 204
    status, headers, rows = ASK("GET", path + "?id=b&id=gone&id=nobody&id=a%2Fb%2Bc&id=a")
    assert status == 200 and "link" not in headers, (status, headers)
    assert [r["id"] for r in rows] == ["b", "a/b+c", "a"], rows
    assert [r["holder_id"] for r in rows] == ["h", None, None] and rows[0]["version"] >= 1, rows
    assert ASK("GET", path + "?id=nobody")[2] == []
    for wrong in ("id=", "id", "id=a%20b", "id=..", "id=%00", "id=%zz", "id=a&id=%7f", "id=a&limit=1", "id=a&after=a",
                  "leased=true&id=a", "id=" + "x" * 256):
        refused(ASK("GET", "%s?%s" % (path, wrong)), 400, "bad_request")


@case("a batch gets an outcome for each operation, in their order")
def batch():
    ns = fresh()
    path = "/api/v1/%s/leases" % ns
    held(ns, "taken", "other")
    ops = [{"op": "acquire", "id": "a", "ttl_ms": 5000}, {"op": "acquire", "id": "taken"}, {"op": "renew", "id": "a"},
           {"op": "renew", "id": "taken", "version": 1}, {"op": "read", "id": "a"}, {"op": "release", "id": "a"},
           {"op": "acquire", "id": "a"}, {"op": "acquire", "id": "a"}, {"op": "read", "id": "never"}]
    status, headers, found = ASK("POST", path, {"holder_id": "me", "ops": ops})
    assert status == 200 and headers["content-type"] == "application/json"
    assert [f["outcome"] for f in found] == ["ok", "held", "ok", "lost", "ok", "ok", "ok", "ok", "ok"], found
    assert [f["id"] for f in found] == [o["id"] for o in ops]
    for each in found:
        assert {"id", "outcome", "version", "holder_id", "ttl_ms", "remaining_ms"} <= set(each), each
    assert found[0]["ttl_ms"] == 5000 and found[0]["version"] == 1 and found[1]["holder_id"] == "other"
    assert found[6]["version"] == found[7]["version"] == 2, "acquiring one's own again is ok with the same token"
    found = ASK("POST", path, {"holder_id": "me", "require_target": True,
                               "ops": [{"op": "acquire", "id": "nowhere"}, {"op": "acquire", "id": "a"}]})[2]
    assert [f["outcome"] for f in found] == ["unknown", "ok"], found
    for wrong in ("x", 1, None):
        answer = ASK("POST", path, {"holder_id": "me", "require_target": wrong, "ops": [{"op": "read", "id": "a"}]})
        refused(answer, 400, "bad_request", "require_target")


@case("a batch is up to 1,000 operations")
def batch_bounds():
    ns = fresh()
    path = "/api/v1/%s/leases" % ns
    ops = [{"op": "acquire", "id": "t%d" % i} for i in range(1001)]
    refused(ASK("POST", path, {"holder_id": "me", "ops": ops}), 400, "bad_request", "1000")
    found = ASK("POST", path, {"holder_id": "me", "ops": ops[:1000]})[2]
    assert len(found) == 1000 and {f["outcome"] for f in found} == {"ok"}
    assert [f["id"] for f in found] == [o["id"] for o in ops[:1000]]
    assert ASK("GET", "/api/v1/%s?leased=true&limit=10000" % ns)[2][999]
    for wrong in ({}, {"ops": []}, {"ops": {}}, {"ops": [1]}, {"ops": [{"op": "acquire"}]}, {"ops": [{"id": "a"}]},
                  {"ops": [{"op": "burn", "id": "a"}]}, {"ops": [{"op": "acquire", "id": "a b"}]},
                  {"ops": [{"op": "acquire", "id": "a", "ttl_ms": 1}]}, {"ops": [{"op": "renew", "id": "a", "version": 0}]},
                  {"ops": [{"op": "acquire", "id": "a\u0000b"}]}, {"ops": [{"op": "ask"}]},
                  {"ops": [{"op": "announce", "weight": -1}]}, {"ops": [{"op": "announce", "weight": 1.5}]}):
        refused(ASK("POST", path, {"holder_id": "me", **wrong}), 400, "bad_request")
    refused(ASK("POST", path, {"ops": ops[:1]}), 400, "bad_request")
    refused(ASK("POST", path), 400, "bad_request", "holder_id")
    # Checkpoints that come back make an answer large: at most about four megabytes.
    for op in ("read_checkpoint", "acquire_checkpoint"):
        some = [{"op": op, "id": "t%d" % i} for i in range(161)]
        refused(ASK("POST", path, {"holder_id": "me", "ops": some}), 400, "bad_request", "160")
        assert len(ASK("POST", path, {"holder_id": "me", "ops": some[:160] + ops[:840]})[2]) == 1000
    refused(ASK("POST", path, {"holder_id": "me", "ops": [{"op": "burn", "id": "a"}]}), 400, "bad_request",
            "acquire, renew, release, hand, checkpoint or read")


@case("a holder hands its lease over to an instance, in a batch and by itself")
def hands():
    ns = fresh()
    batch = "/api/v1/%s/leases" % ns
    assert ASK("PUT", "/api/v1/%s/nodes/b" % ns, {"ttl_ms": 20000})[0] == 204
    assert ASK("PUT", "/api/v1/%s/nodes/idle" % ns, {"ttl_ms": 20000, "weight": 0})[0] == 204
    for target in "tuv":
        held(ns, target, "a", ttl_ms=20000)
    by_itself = lease(ns, "t") + "/hand"
    whole = {"holder_id": "a", "version": 1, "successor_id": "b"}
    for missing in whole:
        answer = ASK("POST", by_itself, {k: v for k, v in whole.items() if k != missing})
        refused(answer, 400, "bad_request", missing)
        if missing != "holder_id":
            op = {"op": "hand", "id": "t", **{k: v for k, v in whole.items() if k not in (missing, "holder_id")}}
            refused(ASK("POST", batch, {"holder_id": "a", "ops": [op]}), 400, "bad_request", missing)
    for wrong in (7, "", "x" * 300):
        refused(ASK("POST", by_itself, {**whole, "successor_id": wrong}), 400, "bad_request", "successor_id")
    # Refused, and nothing has changed.
    for successor in ("nobody", "idle"):
        refused(ASK("POST", by_itself, {**whole, "successor_id": successor}), 409, "refused", successor)
    refused(ASK("POST", by_itself, {**whole, "version": 2}), 404, "lost")
    refused(ASK("POST", by_itself, {**whole, "holder_id": "c"}), 404, "lost")
    assert ASK("GET", lease(ns, "t"))[2]["holder_id"] == "a"
    # The successor has it at once, and confirms it by an acquire.
    status, _, found = ASK("POST", by_itself, {**whole, "ttl_ms": 10000})
    assert status == 200 and found["holder_id"] == "b" and found["version"] == 2 and is_time(found["expires_at"]), found
    refused(ASK("POST", by_itself, whole), 404, "lost")
    refused(ASK("POST", lease(ns, "t"), {"holder_id": "c"}), 409, "held")
    ops = [{"op": "acquire", "id": "t"}]
    assert ASK("POST", batch, {"holder_id": "b", "ops": ops})[2][0]["version"] == 2
    ops = [{"op": "hand", "id": "u", "version": 1, "successor_id": "b", "reason": "drain"},
           {"op": "hand", "id": "v", "version": 1, "successor_id": "nobody"}, {"op": "renew", "id": "v", "version": 1},
           {"op": "hand", "id": "t", "version": 1, "successor_id": "b"}]
    found = ASK("POST", batch, {"holder_id": "a", "ops": ops})[2]
    assert [f["outcome"] for f in found] == ["ok", "unknown", "ok", "lost"], found
    assert found[0]["holder_id"] == "b" and found[0]["version"] == 2 and found[3]["holder_id"] == "b", found
    assert "not announced" in found[1]["message"] and "message" not in found[0], found
    told = [(e["event"], e["instance"], e["reason"]) for e in ASK("GET", "/api/v1/%s/history" % ns)[2] if e["target"] == "u"]
    assert told[-2:] == [("lease_released", "a", "drain"), ("lease_acquired", "b", "drain")], told


@case("a checkpoint is kept beside the lease, written under its version alone, and comes with the next grant")
def checkpoints():
    ns = fresh()
    batch = "/api/v1/%s/leases" % ns
    path = "/api/v1/%s/t/checkpoint" % ns
    refused(ASK("GET", path), 404, "unknown_target")
    held(ns, "t", "a", ttl_ms=20000)
    assert ASK("GET", path)[::2] == (200, {"value": None, "version": None})
    whole = {"holder_id": "a", "version": 1, "value": "page 7"}
    for missing in whole:
        refused(ASK("PUT", path, {k: v for k, v in whole.items() if k != missing}), 400, "bad_request", missing)
    for wrong in (7, None):
        refused(ASK("PUT", path, {**whole, "value": wrong}), 400, "bad_request", "value")
    refused(ASK("PUT", path, {**whole, "value": "a\u0000b"}), 400, "bad_request")
    refused(ASK("PUT", path, {**whole, "more": 1}), 400, "bad_request")
    refused(ASK("PUT", path, {**whole, "value": "x" * 4097}), 413, "too_large", "4096")
    refused(ASK("POST", path, whole), 405, "method_not_allowed")
    assert ASK("PUT", path, whole)[::2] == (204, "")
    assert ASK("GET", path)[::2] == (200, {"value": "page 7", "version": 1})
    for stale in ({"version": 2}, {"holder_id": "b"}):
        refused(ASK("PUT", path, {**whole, "value": "stale", **stale}), 409, "stale")
    assert ASK("DELETE", lease(ns, "t"), {"holder_id": "a"})[0] == 204
    refused(ASK("PUT", path, {**whole, "value": "after its end"}), 409, "stale")
    status, _, grant = ASK("POST", lease(ns, "t"), {"holder_id": "b"})
    assert status == 201 and grant["version"] == 2 and grant["checkpoint"] == "page 7", grant
    ops = [{"op": "checkpoint", "id": "t", "version": 2, "value": "\u20ac \"8\"\n"}, {"op": "read_checkpoint", "id": "t"},
           {"op": "acquire_checkpoint", "id": "t"}, {"op": "checkpoint", "id": "t", "version": 1, "value": "9"},
           {"op": "acquire", "id": "t"}]
    found = ASK("POST", batch, {"holder_id": "b", "ops": ops})[2]
    assert [f["outcome"] for f in found] == ["ok", "ok", "ok", "lost", "ok"], found
    assert found[1]["checkpoint"] == found[2]["checkpoint"] == "\u20ac \"8\"\n" and found[1]["checkpoint_version"] == 2, found
    assert "checkpoint" not in found[0] and "checkpoint" not in found[4], found
    for wrong in ({"value": "x" * 4097}, {"value": 7}, {}, {"value": "x", "version": None}):
        op = {"op": "checkpoint", "id": "t", "version": 2, **wrong}
        assert ASK("POST", batch, {"holder_id": "b", "ops": [op]})[0] in (400, 413), wrong
    assert ASK("PUT", path, {"holder_id": "b", "version": 2, "value": ""})[0] == 204
    assert ASK("GET", path)[2]["value"] is None


@case("instances announce themselves, are listed with their share, and leave")
def nodes():
    ns = fresh()
    path = "/api/v1/%s/nodes" % ns
    assert ASK("PUT", path + "/i-1", {"weight": 3, "ttl_ms": 20000})[::2] == (204, "")
    assert ASK("PUT", path + "/i%2F2", {"ttl_ms": 20000})[0] == 204
    assert ASK("PUT", path + "/i-1", {"weight": 2, "ttl_ms": 20000})[0] == 204
    held(ns, "a", "i-1")
    held(ns, "b", "i-1")
    status, _, found = ASK("GET", path)
    assert status == 200 and sorted(f["instance"] for f in found) == ["i-1", "i/2"], found
    one = [f for f in found if f["instance"] == "i-1"][0]
    assert one["weight"] == 2 and one["share"] == 2 and is_time(one["since"]) and 0 < one["remaining_ms"] <= 20000, one
    assert [f["share"] for f in found if f["instance"] == "i/2"] == [0]
    refused(ASK("PUT", path + "/i-3", {"ttl_ms": 30000}), 409, "held", "20000")
    for wrong in ({"weight": -1}, {"weight": "1"}, {"weight": 1e3}, {"ttl_ms": "1"}, {"weight": 2**40}):
        refused(ASK("PUT", path + "/i-3", wrong), 400, "bad_request")
    assert ASK("DELETE", path + "/i-1")[0] == 204
    assert ASK("DELETE", path + "/i-1")[0] == 204
    assert [f["instance"] for f in ASK("GET", path)[2]] == ["i/2"]


@case("the history tells the changes of hands")
def history():
    ns = fresh()
    held(ns, "t", "a")
    ASK("DELETE", lease(ns, "t"), {"holder_id": "a"})
    status, headers, found = ASK("GET", "/api/v1/%s/history" % ns)
    assert status == 200 and headers["x-tenure-cursor"].isdigit()
    assert [f["event"] for f in found] == ["target_added", "lease_acquired", "lease_released"], found
    assert (found[1]["target"], found[1]["instance"], found[1]["token"]) == ("t", "a", 1) and is_time(found[1]["at"])
    more = ASK("GET", "/api/v1/%s/history?after=%d&limit=1" % (ns, found[0]["cursor"]))[2]
    assert more == [found[1]], more
    last = ASK("GET", "/api/v1/%s/history?target=t&since=1h&limit=1" % ns)[2]
    assert last == [found[2]] and last[0].get("held_ms", 1) > 0, last  # left out if it was less than a millisecond
    assert [f["event"] for f in ASK("GET", "/api/v1/%s/history?after=oldest" % ns)[2]] == [f["event"] for f in found]
    for wrong in ("limit=0", "limit=x", "limit=1x", "limit=-1", "limit=", "after=x", "after=-1", "after=", "limit=10001",
                  "since=soon", "target=a%20b", "target=t&after=now"):
        refused(ASK("GET", "/api/v1/%s/history?%s" % (ns, wrong)), 400, "bad_request")


@case("it says that it is alive, ready, and what it is")
def states():
    assert ASK("GET", "/healthz")[::2] == (200, {"status": "alive"})
    status, _, body = ASK("GET", "/readyz")
    assert status == 200 and body["status"] == "ready" and body["store"] == "sqlite", body
    status, headers, page = ASK("GET", "/")
    assert status == 200 and headers["content-type"].startswith("text/html") and "Tenure" in page
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@case("the page is one that a browser keeps, and runs nothing else in")
def the_page():
    names = re.findall(r'(?:src|href)="(/web/[a-z.]+)"', ASK("GET", "/")[2])
    assert "/web/app.js" in names and "/web/style.css" in names, names
    for path in ["/", "/web/index.html", "/web/model.js"] + names:
        status, headers, text = ASK("GET", path)
        policy = headers["content-security-policy"].split("; ")
        assert status == 200 and "default-src 'none'" in policy and "script-src 'self'" in policy, (path, policy)
        assert "unsafe" not in headers["content-security-policy"] and "form-action 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-cache"
        tag = headers["etag"]
        for known in (tag, "W/" + tag, '"other", ' + tag, "*"):
            again = ASK("GET", path, None, {"If-None-Match": known})
            assert again[0] == 304 and not again[2] and again[1]["etag"] == tag, (path, known, again)
        assert ASK("GET", path, None, {"If-None-Match": '"other"'})[0] == 200
        head = ASK("HEAD", path)
        assert head[0] == 200 and head[1]["content-length"] == str(len(text.encode())), (path, head)
        for pattern in ("<script>", " style=", " onclick=", "innerHTML", "eval(", "https://"):
            assert pattern not in text, (path, pattern)
    refused(ASK("GET", "/web/none.js"), 404, "not_found")
    refused(ASK("GET", "/web/%2e%2e%2fmeson.build"), 404, "not_found")
    refused(ASK("POST", "/web/app.js", {}), 405, "method_not_allowed")


@case("instances are told with their share of the plan, and what is to move")
def plan():
    ns = fresh()
    for i in range(9):
        put(ns, "t%d" % i)
    for name in ("a", "b", "c"):
        assert ASK("PUT", "/api/v1/%s/nodes/%s" % (ns, name), {"ttl_ms": 60000})[0] == 204
    ops = [{"op": "acquire", "id": "unregistered", "ttl_ms": 60000}]
    assert ASK("POST", "/api/v1/%s/leases" % ns, {"holder_id": "stranger", "ops": ops})[2][0]["outcome"] == "ok"
    for i in range(9):
        assert ASK("POST", lease(ns, "t%d" % i), {"holder_id": "a", "ttl_ms": 60000})[0] == 201
    status, headers, found = ASK("GET", "/api/v1/%s/nodes?plan=true" % ns)
    assert status == 200 and headers["x-tenure-role"] == "admin"
    by = {node["instance"]: node for node in found}
    assert [by[name]["planned"] for name in "abc"] == [3, 3, 3] and [by[name]["share"] for name in "abc"] == [9, 0, 0], by
    assert by["a"]["moving_count"] == 6 == len(by["a"]["moving"]) and by["b"]["moving"] == [], by
    assert sorted(move["planned"] for move in by["a"]["moving"]) == ["b"] * 3 + ["c"] * 3, by
    assert "planned" not in ASK("GET", "/api/v1/%s/nodes" % ns)[2][0]


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (\S+)( -?\d+)?')


@case("the metrics are text that Prometheus reads")
def metrics():
    status, headers, text = ASK("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    assert text.endswith("\n")
    kinds, seen, done = {}, set(), set()
    current = None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in kinds and kind in ("counter", "gauge", "histogram"), line
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match, line
            float(match.group(3).replace("+Inf", "inf"))
            base = re.sub(r"_(bucket|sum|count)$", "", match.group(1))
            name = base if kinds.get(base) == "histogram" else match.group(1)
            assert name in kinds and name.startswith("tenure_"), line
            assert match.group(1, 2) not in seen, "twice: " + line
            seen.add(match.group(1, 2))
            assert name == current or name not in done, "not together: " + line
            done.add(name)
            current = name
    for wanted in ("tenure_http_requests_total", "tenure_renew_seconds", "tenure_store_errors_total", "tenure_store_up"):
        assert wanted in kinds, kinds
    buckets = [float(m.group(3)) for m in map(SAMPLE.fullmatch, text.splitlines()) if m and m.group(1).endswith("_bucket")]
    assert buckets == sorted(buckets) and buckets
    before = int(re.search(r'requests_total\{route="healthz",code="200"\} (\d+)', text).group(1))
    ASK("GET", "/healthz")
    after = int(re.search(r'requests_total\{route="healthz",code="200"\} (\d+)', ASK("GET", "/metrics")[2]).group(1))
    assert after == before + 1


# What makes the server answer with each status that its description lists; those with auth or a dead store are
# server_limits.py's.
def provoke(path, method, status):
    ns = fresh()
    held(ns, "t", "a")
    put(ns, "free")
    body = {"holder_id": "a"}
    fill = path.replace("{ns}", ns).replace("{instance}", "i").replace("{id}", "t")
    fill = fill.replace("{file}", "app.js")
    if status == "304":
        return ASK(method, fill, None, {"If-None-Match": "*"})
    if status == "413":
        return ASK(method, fill, " " * (1024 * 1024 + 1))
    if status == "415":
        return ASK(method, fill, "x", {"Content-Type": "text/plain"})
    if status == "400":
        if method == "GET" or path.count("{") == 2 and method in ("PUT", "DELETE") and "lease" not in path and "checkpoint" not in path:
            return ASK(method, path.replace("{ns}", "a%20b").replace("{instance}", "i").replace("{id}", "t"))
        return ASK(method, fill, "{")
    special = {
        ("/api/v1/{ns}", "POST", "200"): ("/api/v1/%s" % ns, {"edits": [{"action": "put", "target": {"id": "x"}}]}),
        ("/api/v1/{ns}/forget", "POST", "200"): (fill, {"ids": ["t"]}),
        ("/api/v1/{ns}/{id}", "PUT", "201"): ("/api/v1/%s/new" % ns, None),
        ("/api/v1/{ns}/{id}", "DELETE", "404"): ("/api/v1/%s/never" % ns, None),
        ("/api/v1/{ns}/{id}/lease", "GET", "404"): (lease(ns, "never"), None),
        ("/api/v1/{ns}/{id}/lease", "POST", "201"): (lease(ns, "free"), body),
        ("/api/v1/{ns}/{id}/lease", "POST", "404"): (lease(ns, "never"), body),
        ("/api/v1/{ns}/{id}/lease", "DELETE", "404"): (lease(ns, "never"), body),
        ("/api/v1/{ns}/{id}/lease", "DELETE", "409"): (lease(ns, "t"), {"holder_id": "b"}),
        ("/api/v1/{ns}/{id}/lease/renew", "POST", "404"): (lease(ns, "free") + "/renew", body),
        ("/api/v1/{ns}/{id}/lease/hand", "POST", "200"): (fill, {**body, "version": 1, "successor_id": "i"}),
        ("/api/v1/{ns}/{id}/lease/hand", "POST", "404"): (fill, {**body, "version": 9, "successor_id": "i"}),
        ("/api/v1/{ns}/{id}/lease/hand", "POST", "409"): (fill, {**body, "version": 1, "successor_id": "j"}),
        ("/api/v1/{ns}/{id}/checkpoint", "GET", "404"): ("/api/v1/%s/never/checkpoint" % ns, None),
        ("/api/v1/{ns}/{id}/checkpoint", "PUT", "204"): (fill, {**body, "version": 1, "value": "x"}),
        ("/api/v1/{ns}/{id}/checkpoint", "PUT", "409"): (fill, {**body, "version": 9, "value": "x"}),
        ("/api/v1/{ns}/{id}/pin", "PUT", "204"): ("/api/v1/%s/free/pin" % ns, {"instance": "i"}),
        ("/api/v1/{ns}/{id}/pin", "PUT", "404"): ("/api/v1/%s/never/pin" % ns, {"instance": "i"}),
        ("/api/v1/{ns}/{id}/pin", "DELETE", "204"): ("/api/v1/%s/free/pin" % ns, None),
        ("/api/v1/{ns}/{id}/pin", "DELETE", "404"): ("/api/v1/%s/never/pin" % ns, None),
        ("/api/v1/{ns}/{id}/owner", "GET", "404"): ("/api/v1/%s/never/owner" % ns, None),
        ("/web/{file}", "GET", "404"): ("/web/never", None),
        ("/api/v1/{ns}/leases", "POST", "200"): (fill, {"holder_id": "a", "ops": [{"op": "read", "id": "t"}]}),
    }
    if (path, method, status) == ("/api/v1/{ns}/nodes/{instance}", "PUT", "409"):
        ASK("PUT", fill, {"ttl_ms": 20000})
        return ASK("PUT", fill + "x", {"ttl_ms": 30000})
    if path.endswith("/hand"):
        ASK("PUT", "/api/v1/%s/nodes/i" % ns, {"ttl_ms": 20000})
    fill, body = special.get((path, method, status), (fill, body if "lease" in path else None))
    return ASK("HEAD" if path.endswith("/events") else method, fill, body)


@case("a target is pinned and unpinned, and lists and history say so")
def pins():
    ns = fresh()
    put(ns, "t")
    pin = "/api/v1/%s/t/pin" % ns
    assert ASK("PUT", pin, {"instance": "b-1-2", "for_ms": 60000, "reason": "why", "actor": "me@here"})[0] == 204
    found = ASK("GET", "/api/v1/" + ns)[2][0]["pin"]
    assert (found["instance"], found["away"], found["reason"], found["actor"]) == ("b-1-2", False, "why", "me@here"), found
    assert 0 < found["remaining_ms"] <= 60000 and found["until"].endswith("Z"), found
    last = ASK("GET", "/api/v1/%s/history" % ns)[2][-1]
    assert (last["event"], last["reason"], last["instance"], last["actor"]) == ("target_changed", "pinned", "b-1-2", "me@here"), last
    for wrong in ({}, {"instance": 5}, {"instance": "b", "for_ms": 0}, {"instance": "b", "away": 1}, {"instance": "b", "x": 1},
                  {"instance": "b", "reason": "x" * 201}):
        assert ASK("PUT", pin, wrong)[0] == 400, wrong
    assert ASK("DELETE", pin, {"actor": "me@here"})[0] == 204
    assert "pin" not in ASK("GET", "/api/v1/" + ns)[2][0]
    assert ASK("GET", pin)[0] == 405


def every_schema(node):
    """All references and schemas of the document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from every_schema(child)


@case("every path, method and status that it describes is served")
def described():
    found = ASK("GET", "/openapi.json")[2]
    assert found["openapi"].startswith("3.")
    count = 0
    for path, methods_of in found["paths"].items():
        for method, about in methods_of.items():
            for status, answer in about["responses"].items():
                if status in ("401", "403", "429", "503"):
                    continue
                got, headers, _ = provoke(path, method.upper(), status)
                assert str(got) == status, (path, method, status, "but", got)
                content = part(found, answer).get("content", {})
                kind = headers.get("content-type", "").split(";")[0]
                assert kind in content or not content, (path, method, status, headers)
                count += 1
    for node in every_schema(found):
        part(found, node)
        if isinstance(node.get("required"), list):
            assert set(node["required"]) <= set(node["properties"]), node
    for path, methods_of in found["paths"].items():
        for method, about in methods_of.items():
            given = {part(found, each)["name"] for each in about.get("parameters", ()) if part(found, each)["in"] == "path"}
            assert given == set(re.findall(r"\{(\w+)\}", path)), (path, method, given)
    assert count > 50, count
    operation = found["components"]["schemas"]["Operation"]["properties"]
    words = {"acquire", "acquire_checkpoint", "acquire_fresh", "renew", "keep", "release", "force", "force_now", "hand",
             "checkpoint", "read", "read_checkpoint", "announce", "leave", "ask"}
    assert set(operation["op"]["enum"]) == words, operation["op"]
    path = "/api/v1/%s/leases" % fresh()
    for word in words:
        answer = ASK("POST", path, {"holder_id": "a", "ops": [{"op": word, "id": "t", "holder_id": "a", "version": 1, "ask": 1,
                                                               "successor_id": "b", "value": "x"}]})
        assert answer[0] == 200, (word, answer)
    for member in operation:
        answer = ASK("POST", path, {"holder_id": "a", "ops": [{"op": "read", "id": "t", member: []}]})
        assert "unknown" not in json.dumps(answer[2]), (member, answer)


@case("the namespaces are listed, each once and in order")
def namespaces():
    ns = fresh()
    assert ns not in ASK("GET", "/api/v1")[2]
    held(ns, "t", "a")
    held(ns, "u", "a")
    status, _, found = ASK("GET", "/api/v1")
    assert status == 200 and found.count(ns) == 1 and found == sorted(found), found


@case("everything that is served is described")
def undescribed():
    known = ASK("GET", "/openapi.json")[2]["paths"]
    for path in ("/api/v1", "/api/v1/{ns}", "/api/v1/{ns}/{id}", "/api/v1/{ns}/{id}/lease", "/api/v1/{ns}/{id}/lease/renew",
                 "/api/v1/{ns}/{id}/lease/hand", "/api/v1/{ns}/leases", "/api/v1/{ns}/nodes", "/api/v1/{ns}/nodes/{instance}", "/api/v1/{ns}/events",
                 "/api/v1/{ns}/history", "/metrics", "/healthz", "/readyz", "/openapi.json", "/", "/web/{file}"):
        answer = ASK("PATCH", path.replace("{ns}", "m").replace("{id}", "t").replace("{instance}", "i"))
        served = {w for w in answer[1]["allow"].lower().split(", ") if w != "head"}
        assert path in known and set(known[path]) == served, (path, served, known.get(path, {}).keys())


@case("a request that the store refuses harms no other request")
def no_contagion():
    ns = fresh()
    held(ns, "t", "a", ttl_ms=60000)
    bad = subprocess.Popen([sys.executable, "-c", """
import http.client, sys, time
link = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
end = time.monotonic() + 2
while time.monotonic() < end:
    link.request("POST", "/api/v1/%s/leases" % sys.argv[3], '{"holder_id":"z","ops":[{"op":"keep","id":"x","ttl_ms":1}]}')
    link.getresponse().read()
""", SERVER.address[0], str(SERVER.address[1]), ns])
    import http.client
    link = http.client.HTTPConnection(*SERVER.address)
    count = 0
    while bad.poll() is None:
        link.request("POST", lease(ns, "t") + "/renew", '{"holder_id":"a"}')
        answer = link.getresponse()
        text = answer.read()
        assert answer.status == 200, (answer.status, text, "after", count)
        count += 1
    assert count > 50 and bad.returncode == 0, (count, bad.returncode)


try:
    main()
finally:
    SERVER.remove()
