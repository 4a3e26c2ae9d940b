#!/usr/bin/env python3
"""openapi.py API.DEF: prints the description of the REST interface, OpenAPI 3.0.

Paths, methods, and the fields of queries and bodies are the rows of src/server/api.def, which the server obeys. Here is
what those do not say: what each operation is for, and what it answers. The build fails if the two do not fit together.
"""
import json
import re
import sys

# ---- what is answered

# The members of an answer: "!" is always there, "?" may be null, "[]" is an array. What is none of the types in TYPES
# is another of these.
SCHEMAS = {
    "Lease": ("", ["!holder_id string?", "!version integer", "!expires_at time?", "remaining_ms integer"]),
    "Grant": ("", ["!version integer", "!expires_at time", "!ttl_ms integer",
                   ("checkpoint string", "what an earlier holder has left; not there: nothing")]),
    "Handed": ("", ["!holder_id string", "!version integer", "!expires_at time", "!ttl_ms integer"]),
    "Checkpoint": ("", ["value string?", ("version integer?", "under which it was written")]),
    "Holder": ("", ["!holder_id string", "!address string?", "!version integer", "!labels labels"]),
    "Target": ("", ["!id string", ("scene_id string", "the id, in the namespace scenes"), "!holder_id string?",
                    "!version integer", "!expires_at time?", "!paused boolean", "registered boolean",
                    ("remaining_ms integer", "this and the next four: while it is held"), "ttl_ms integer",
                    "acquired_at time?", "acquired_at_ms integer",
                    ("barred boolean", "true: it was forced, and ends without being renewed"), "url string",
                    "exec string", "every_ms integer", "spec any", "pin Pin"]),
    "Registered": ("", ["!id string"]),
    "Edited": ("", ["!id string", ("!found boolean", "whether it was registered before")]),
    "Forgotten": ("", ["!id string", "!outcome forgetting"]),
    "ForgottenAll": ("", [("!forgotten integer", "how many"),
                          ("!after string?", "after which id to go on; null: there are no more")]),
    "Pin": ("while it lasts, the plan names this instance, or any other one",
            ["instance string", "away boolean", "until time", "until_ms integer", "remaining_ms integer",
             "actor string?", "reason string?"]),
    "Outcome": ("", [
        ("!id string", "the target; of announce, leave and ask the instance"), "!outcome outcome", "!version integer",
        "!holder_id string?", "!ttl_ms integer", "!remaining_ms integer",
        ("message string", "hand: why it was refused"),
        ("checkpoint string", "of acquire_checkpoint and read_checkpoint"),
        ("checkpoint_version integer", "under which it was written"),
        ("error string", "with the outcome error: its name"),
        ("ask integer", "renew, announce: what is asked of the holder or the instance"),
        ("session integer", "the session of the instance, or that to which the lease is attached; absent: none"),
        ("session_version integer",
         "announce: if it differs from the one before, a lease of the session was changed"),
        ("acquired_at_ms integer", "read"), ("registered boolean", "read"), ("paused boolean", "read"),
        ("barred boolean", "true: it was forced, and ends without being renewed"),
        ("recovering boolean", "true: the store grants nothing new yet")]),
    "Node": ("", [
        "!instance string", "!weight integer",
        ("draining boolean", "it was asked to hand over what it holds, or has a weight of 0; of a candidate: it was "
         "asked to step down, and does not campaign"),
        ("role string", "of a candidate: what it leads or waits for"),
        ("lock boolean", "true: its role is a lock, which it keeps until its work is over"),
        ("session boolean", "its heartbeat renews all its leases"), "since time?", "since_ms integer", "ttl_ms integer",
        "remaining_ms integer", ("ask integer", "what is asked of it, as in an Operation"),
        ("metadata string", "what it says of itself: JSON"), "address string", "labels labels",
        ("share integer", "targets that it holds"), ("planned integer", "targets that it should hold"),
        ("moving Moving[]", "what it holds and another should; up to 100 are named"), "moving_count integer"]),
    "Moving": ("", ["id string", "planned string"]),
    "Change": ("held_ms (of lease_released, lease_lost) and free_ms (of lease_acquired, target_unowned) are there when "
               "they are known, and without after", [
        "cursor integer", "at time", "at_ms integer", "event string", "target string", "instance string",
        "token integer",
        ("reason string", "shutdown, rebalance, drain, removed, paused, forced, resigned, done, expired, taken, store "
         "or crashed; of target_changed: pinned, pinned_away or unpinned; of cron_ended: exited, signal, timed_out or "
         "not_started; of cron_missed: missed or overlap. Others may follow."),
        ("actor string", "who forced, asked or pinned, as NAME (as HOLDER): the principal, and what the client calls "
         "itself; of other changes of targets the principal"), "held_ms integer", "free_ms integer",
        ("instant time", "of cron_started, cron_ended, cron_lost and cron_missed: the instant of the schedule, or the "
         "first of several"), ("started_at time", "of cron_ended"), ("duration_ms integer", "of cron_ended"),
        ("exit_code integer", "of cron_ended; 128 + N: signal N"),
        ("count integer", "of cron_missed: how many instants")]),
    "Alive": ("", ["!status string"]),
    "Ready": ("", ["!status string", "!store string", ("ttl_min_ms integer", "the least TTL that the store grants"),
                   "version string", "at_ms integer"]),
    "Problem": ("", ["!code code", "!message string", "holder_id string?", "version integer", "remaining_ms integer"]),
    "Error": ("", ["!error Problem"]),
}
TYPES = {
    "string": {"type": "string"}, "integer": {"type": "integer"}, "boolean": {"type": "boolean"}, "any": {},
    "time": {"type": "string", "format": "date-time"},
    "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "outcome": {"type": "string", "enum": ["ok", "held", "lost", "unknown", "error"]},
    "forgetting": {"type": "string", "enum": ["forgotten", "held", "registered", "unknown", "recovering"]},
    "code": {"type": "string", "enum": [
        "held", "lost", "stale", "refused", "unknown_target", "bad_request", "unauthorized", "forbidden", "not_found",
        "method_not_allowed", "too_large", "unsupported_type", "rate_limited", "unavailable"]},
}
REFUSALS = {
    "Unauthorized": "no or unknown token",
    "Forbidden": "not allowed",
    "RateLimited": "the principal has its share of the server; nothing was done: try again after Retry-After",
    "Unavailable": "the store is out of reach; Retry-After says when",
    "BadRequest": "wrong request",
    "TooLarge": "the body is over 64 KiB, of a batch 1 MiB",
    "UnsupportedType": "the body is not said to be JSON",
    "UnknownTarget": "unknown target",
    "Lost": "the lease is lost",
    "NeverLeased": "the target is neither registered nor was it ever leased",
    "ValueTooLarge": "the value is over 4096 bytes, or the body over 64 KiB",
    "NotRegistered": "the target is not registered",
}

# Of each operation: what it does, more about that, and what it answers beside the refusals that all have. An answer is
# a refusal by its name, or a description, and what is in it: a schema, or a type of another content.
CURSOR = ("how far it goes: the next after. With \"; resync\" behind the number, changes since the cursor that was "
          "asked for are no longer kept: read the state anew, and go on from this cursor")
OPERATIONS = {
    "GET /": ("the web page", "", {200: ("HTML", "text/html")}),
    "GET /web/{file}": ("a file of the web page", "", {
        200: ("the file, with an ETag",), 304: ("the client has it already",),
        404: ("there is no such file", "Error")}),
    "GET /healthz": ("the process lives", "", {200: ("it does", "Alive")}),
    "GET /readyz": ("the store answers", "", {
        200: ("it does", "Ready"), 429: "RateLimited", 503: ("it does not", "Error")}),
    "GET /metrics": ("for Prometheus", "", {200: ("metrics", "text/plain")}),
    "GET /openapi.json": ("this", "", {200: ("OpenAPI 3.0", "any")}),
    "GET /api/v1": ("the namespaces that the principal may read", "", {
        200: ("in byte order: those in which there is a target, a token counter or an instance", "name[]")}),
    "GET /api/v1/{ns}": ("targets and who holds them", "", {200: ("a page; Link names the next", "Target[]")}),
    "POST /api/v1/{ns}": ("edit many targets; after a failure of the store some may be done, and all can be sent again",
                          "", {200: ("for each, whether it was registered before", "Edited[]")}),
    "POST /api/v1/{ns}/forget": (
        "forget the token counters of targets that are free and not registered (role admin)", "", {
            200: ("for ids, what has become of each; for unregistered, how many were forgotten, and after which id to "
                  "go on (null: there are no more)", "Forgotten[]|ForgottenAll")}),
    "PUT /api/v1/{ns}/{id}": (
        "register a target, or replace its registration as a whole",
        "What the body leaves out is removed or gets its default, also paused: a target that was paused goes on.",
        {200: ("changed", "Registered"), 201: ("new", "Registered")}),
    "DELETE /api/v1/{ns}/{id}": ("remove a target; its token counter stays", "", {
        204: ("removed",), 404: "UnknownTarget"}),
    "PUT /api/v1/{ns}/{id}/pin": ("pin a registered target to an instance, or keep it away from one, for a while", "", {
        204: ("done",), 404: "NotRegistered", 413: "ValueTooLarge"}),
    "DELETE /api/v1/{ns}/{id}/pin": ("take the pin of a target back; it need not have one", "", {
        204: ("done",), 404: "NotRegistered", 413: "ValueTooLarge"}),
    "GET /api/v1/{ns}/{id}/owner": ("the instance that holds the target, and where it can be reached", "", {
        200: ("the holder; address is null and labels are empty if it says nothing of itself", "Holder"),
        404: "NeverLeased"}),
    "GET /api/v1/{ns}/{id}/lease": ("the present lease", "", {
        200: ("holder_id and expires_at are null when it is free", "Lease"), 404: "UnknownTarget"}),
    "POST /api/v1/{ns}/{id}/lease": ("acquire a target that is registered or was leased before", "", {
        201: ("acquired", "Grant"), 404: "UnknownTarget", 409: ("held, also by oneself", "Error")}),
    "DELETE /api/v1/{ns}/{id}/lease": ("release", "The parameters are for requests whose body does not have them.", {
        204: ("not held any more",), 404: "UnknownTarget", 409: ("held by another", "Error")}),
    "POST /api/v1/{ns}/{id}/lease/renew": ("renew", "", {200: ("renewed", "Grant"), 404: "Lost"}),
    "POST /api/v1/{ns}/{id}/lease/hand": (
        "hand over to another instance, which then holds the lease under the next version", "", {
            200: ("handed over", "Handed"), 404: "Lost",
            409: ("refused, and nothing has changed: the successor is not announced, drains or has left, the lease was "
                  "forced, or the store is recovering", "Error")}),
    "GET /api/v1/{ns}/{id}/checkpoint": ("what is kept beside the lease; null: nothing", "", {
        200: ("the value, and the version under which it was written", "Checkpoint"), 404: "NeverLeased"}),
    "PUT /api/v1/{ns}/{id}/checkpoint": (
        "keep something beside the lease, if it is held under that version; an empty value removes it", "", {
            204: ("written",), 409: ("the version is stale: nothing was written", "Error"), 413: "ValueTooLarge"}),
    "POST /api/v1/{ns}/leases": (
        "up to 1000 operations in one request",
        "At most 160 of the operations may be acquire_checkpoint or read_checkpoint, so that an answer has at most "
        "about 4 MiB. A batch that only reads is carried out beside the renewals, not among them.",
        {200: ("outcomes in their order", "Outcome[]")}),
    "GET /api/v1/{ns}/nodes": ("live instances", "", {
        200: ("a page, in byte order", "Node[]",
              {"X-Tenure-Role": "what the sender of the request may do: read, hold or admin"})}),
    "PUT /api/v1/{ns}/nodes/{instance}": ("heartbeat", "", {
        204: ("announced",), 409: ("another TTL than the fleet's, or declared gone", "Error")}),
    "DELETE /api/v1/{ns}/nodes/{instance}": ("leave", "", {204: ("gone",)}),
    "GET /api/v1/{ns}/events": ("changes as server-sent events; Last-Event-ID goes on where one was", "", {
        200: ("a stream; data is a Change. The event resync says that changes are missing: read the state anew",
              "text/event-stream")}),
    "GET /api/v1/{ns}/history": ("changes of hands, as far back as they are kept", "", {
        200: ("oldest first", "Change[]", {"X-Tenure-Cursor": CURSOR})}),
}
# A target may be called forget; it is described as any other.
UNNAMED = {"PUT /api/v1/{ns}/forget", "DELETE /api/v1/{ns}/forget"}

# ---- what is sent: what the rows of api.def leave to this table

PATH_PARAMETERS = {
    "ns": ("Namespace", dict(TYPES["name"], description="the namespace; the scenes' is scenes")),
    "id": ("TargetId", {"type": "string", "maxLength": 255,
                        "description": "a target, percent-encoded, its slashes as %2F"}),
    "instance": ("Instance", {"type": "string", "maxLength": 255, "description": "percent-encoded"}),
    "file": ("File", {"type": "string"}),
}
BODIES = {
    "ITEM": ("Operation",
             "acquire_fresh: held also by oneself is refused; force: bars the lease from renewal, and the target is "
             "free when it ends; force_now: the target is free at once, though its holder may still work; keep: a "
             "renewal that only keeps others out for ttl_ms; announce: the heartbeat of holder_id, which leave ends; "
             "ask: leaves a request for the holder of a lease or for an instance. force, force_now and ask need the "
             "role admin, read the role read, the others hold"),
    "EDIT": ("Edit", ""),
    "PINNING": ("PinRequest", ""),  # also to unpin, which needs no instance
}
MEMBERS = {
    ("BATCH", "ops"): {"items": {"$ref": "#/components/schemas/Operation"}},
    ("ITEM", "op"): {"enum": [
        "acquire", "acquire_checkpoint", "acquire_fresh", "renew", "keep", "release", "force", "force_now", "hand",
        "checkpoint", "read", "read_checkpoint", "announce", "leave", "ask"]},
    ("ITEM", "ask"): {"enum": [0, 1, 2, 3]},
    ("EDITS", "edits"): {"items": {"$ref": "#/components/schemas/Edit"}},
    ("EDIT", "action"): {"enum": ["put", "remove", "pause", "resume", "pin", "unpin"]},
    ("EDIT", "pin"): {"allOf": [{"$ref": "#/components/schemas/PinRequest"}]},
    ("FORGETTING", "ids"): {"items": {"type": "string"}},
    ("HISTORY", "since"): {"pattern": "^[0-9]+(ms|s|m|h|d)$"},
}
ALWAYS = {("ITEM", "op"), ("EDIT", "action")}  # required, which the handler says in its own words
BASE = {"NUMBER": "integer", "TTL": "integer", "TRUTH": "boolean", "TEXT": "string", "HOLDER": "string",
        "TARGET": "string", "SUBJECT": "string", "ITEMS": "array", "OBJECT": "object", "STRING": "string",
        "BOOLEAN": "boolean", "IDS": "array"}


def rows_of(path):
    """(macro, its arguments) of each row; a text is what its quotes have in them."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/|^#.*?$", "", file.read(), flags=re.S | re.M)
    for macro, inside in re.findall(r'(\w+)\(((?:[^"()]|"(?:[^"\\]|\\.)*")*)\)', text):
        arguments = [""]
        for part in re.findall(r'"(?:[^"\\]|\\.)*"|,|[^\s",]+', inside):
            if part == ",":
                arguments.append("")
            elif part[0] == '"':
                arguments[-1] += json.loads(part)
            else:
                arguments[-1] += part
        yield macro, arguments


class Field:
    """A row FIELD or ELSEWHERE."""

    def __init__(self, macro, arguments):
        if macro == "ELSEWHERE":
            self.name, self.type, ways, places, self.about = arguments
            least = most = "0"
        else:
            _, self.name, self.type, least, most, ways, places, self.about = arguments
        self.least, self.most = int(least), int(most)
        self.ways, self.places = set(ways.split("|")), set(places.split("|"))

    def schema(self, place):
        found = {"type": BASE[self.type]} if self.type in BASE else {}
        if self.type in ("NUMBER", "TTL"):
            found.update(minimum=self.least, maximum=self.most)
        elif found.get("type") == "string" and self.most:
            found["maxLength"] = self.most
        elif self.type == "ITEMS":
            found.update(minItems=self.least, maxItems=self.most)
        elif self.type == "IDS":
            found.update(maxItems=100, items={"type": "string"})
        if self.type == "SUBJECT" or "NULLABLE" in self.ways:
            found["nullable"] = True
        found.update(MEMBERS.get((place, self.name), {}))
        if "allOf" in found:
            del found["type"]
        return found


def described(schema, about):
    return {**schema, "description": about} if about else schema


def body_of(fields, place, optional=False):
    own = [field for field in fields if place in field.places and "QUERY" not in field.ways]
    required = [field.name for field in own
                if (place, field.name) in ALWAYS or ("REQUIRED" in field.ways and not optional)]
    found = {"type": "object", "properties": {field.name: described(field.schema(place), field.about) for field in own}}
    if required:
        found["required"] = required
    return found if own else None


def type_of(word):
    if "|" in word:
        return {"oneOf": [type_of(part) for part in word.split("|")]}
    if word.endswith("[]"):
        return {"type": "array", "items": type_of(word[:-2])}
    if word.endswith("?"):
        return {**type_of(word[:-1]), "nullable": True}
    return TYPES[word] if word in TYPES else {"$ref": "#/components/schemas/" + word}


def schema_of(about, members):
    found = {"type": "object", "properties": {}}
    required = []
    for member in members:
        named, text = (member, "") if isinstance(member, str) else member
        name, kind = named.split()
        if name[0] == "!":
            required.append(name[1:])
        found["properties"][name.lstrip("!")] = described(type_of(kind), text)
    if required:
        found["required"] = required
    return described(found, about)


def answer_of(answer):
    if isinstance(answer, str):
        return {"$ref": "#/components/responses/" + answer}
    text, content, headers = (*answer, None, None)[:3]
    found = {"description": text}
    if content and "/" in content:
        found["content"] = {content: {"schema": {"type": "string"}}}
    elif content:
        found["content"] = {"application/json": {"schema": type_of(content)}}
    if headers:
        found["headers"] = {name: {"description": about, "schema": {"type": "string"}}
                            for name, about in headers.items()}
    return found


def refusals_of(path, method, role):
    if role == "NONE":
        return {}
    found = {401: "Unauthorized", 403: "Forbidden", 429: "RateLimited"}
    if path != "/metrics":
        found[503] = "Unavailable"
    if "{ns}" in path:
        found[400] = "BadRequest"
    if method != "GET":
        found.update({413: "TooLarge", 415: "UnsupportedType"})
    return found


def parameters_of(fields, path, place, method):
    found = [{"$ref": "#/components/parameters/" + PATH_PARAMETERS[name][0]} for name in re.findall(r"\{(\w+)\}", path)]
    for field in fields:
        in_query = "QUERY" in field.ways or ("ALSO_QUERY" in field.ways and method == "DELETE")
        if place in field.places and in_query:
            about = field.about or None
            found.append({"name": field.name, "in": "query", "schema": field.schema(place),
                          **({"description": about} if about else {})})
    return found


def operation_of(fields, path, method, role, place):
    summary, description, answers = OPERATIONS[f"{method} {path}"]
    found = described({"summary": summary}, description)
    parameters = parameters_of(fields, path, place, method)
    if parameters:
        found["parameters"] = parameters
    optional = method == "DELETE"
    body = {"$ref": "#/components/schemas/" + BODIES[place][0]} if place in BODIES else body_of(fields, place, optional)
    if body and method != "GET":
        must = not optional and place not in ("REGISTRATION", "HEARTBEAT")
        found["requestBody"] = {"required": must, "content": {"application/json": {"schema": body}}}
    every = {**refusals_of(path, method, role), **answers}
    found["responses"] = {str(status): answer_of(every[status]) for status in sorted(every)}
    return found


def main():
    rows = list(rows_of(sys.argv[1]))
    fields = [Field(macro, arguments) for macro, arguments in rows if macro in ("FIELD", "ELSEWHERE")]
    paths = {}
    known = set()
    for kind, path in ((arguments[0], arguments[-1]) for macro, arguments in rows if macro in ("ROUTE", "PATH")):
        for at, method, _, role, _, _, place in (arguments for macro, arguments in rows if macro == "OPERATION"):
            name = f"{method} {path}"
            if at != kind or name in UNNAMED:
                continue
            paths.setdefault(path, {})[method.lower()] = operation_of(fields, path, method, role, place)
            known.add(name)
    if known != set(OPERATIONS):
        sys.exit(f"openapi.py and {sys.argv[1]} do not fit together: {sorted(known ^ set(OPERATIONS))}")
    schemas = {name: schema_of(about, members) for name, (about, members) in SCHEMAS.items()}
    schemas.update({name: described(body_of(fields, place, place == "PINNING"), about)
                    for place, (name, about) in BODIES.items()})
    json.dump({
        "openapi": "3.0.3",
        "info": {
            "title": "Tenure", "version": "1",
            "description": "Leases with fencing tokens. Times are RFC 3339 in UTC, null when free; versions (tokens) "
                           "are below 2^53. The request line and the headers have at most 8192 bytes (else 431), a "
                           "query at most 100 parameters (else 414)."},
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {name: answer_of((about, "Error")) for name, about in REFUSALS.items()},
            "parameters": {name: {"name": word, "in": "path", "required": True,
                                  **{key: value for key, value in schema.items() if key == "description"},
                                  "schema": {key: value for key, value in schema.items() if key != "description"}}
                           for word, (name, schema) in PATH_PARAMETERS.items()}},
        "security": [{}, {"bearer": []}],
    }, sys.stdout, indent=1)
    print()


main()
