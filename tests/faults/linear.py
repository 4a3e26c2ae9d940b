"""Is the history of one target that of one lease? A search after Wing and Gong, with a memory of what was tried.

A history is a list of operations, each with the time of its invocation, that of its answer, and what was answered. It is
linearizable if there is an order of them, which keeps A before B where A was answered before B was invoked, in which the
answers are those of the model:

    state: the token, the holder (or none), the time before which the lease cannot have ended, and the one after which it
    must have.
    acquire by C  ok T: it was free, or may have ended, and T is above the token; or C has it under T, and it is extended;
                  or C gave its own lease back first, because it no longer believed in it (and another may have come
                  between, see given_up()).
                  held: somebody else had it.
    renew by C, T ok: C has it under T, and it need not have ended. lost: C may not have it under T.
    release by C, T ok: it is free if C had it under T.
    read          holder H, token T: H has it under T; no holder: it is free, or may have ended.

Assumptions. A lease ends by itself no earlier than its TTL after the invocation of what last extended it, less CLOCK of that
(rates of clocks, rounding), and no later than its TTL after the answer of that, plus what the store may lag. An operation
without an answer (unknown) takes effect at any time from its invocation on, but within `horizon_us`, or not at all. Where
the store may forget, it says so by windows: there reads and refusals tell nothing, and late renewals may put a lease back;
that nobody is let in too early, and that tokens grow, is asked of it always.
"""
CLOCK = 0.01
CLOCK_US = 5000
FOREVER = 1 << 62
STEPS_MAX = 400_000


class Operation:
    __slots__ = ("client", "kind", "event", "token", "holder", "invoked", "answered", "until_before", "until_after")

    def __init__(self, client, kind, event, token, holder, invoked, answered, until_before=0, until_after=0):
        self.client, self.kind, self.event, self.token, self.holder = client, kind, event, token, holder
        self.invoked, self.answered = invoked, answered
        self.until_before, self.until_after = until_before, until_after

    def __repr__(self):
        what = f"token {self.token}" + (f", holder {self.holder}" if self.kind == "read" else "")
        answered = self.answered // 1000 if self.answered < FOREVER else "never"
        return f"[{self.invoked // 1000}..{answered}] {self.client} {self.kind} {self.event} {what}"


class Model:
    """States are tuples (token, exact, holder, may_end, must_end, seen). `exact` False: the token is some one above that.
    `seen` is when the holder was last known to have it: refusals of others do not tell who it is. Of a free lease may_end is
    since when it may have been free."""
    FIRST = (0, True, None, 0, 0, 0)

    def __init__(self, ttl_us, lag_us=0, forgets=(), maybe_extended=None, horizon_us=0):
        self.ttl_us, self.lag_us, self.forgets = ttl_us, lag_us, forgets
        self.maybe_extended, self.horizon_us = maybe_extended or {}, horizon_us

    def forgot(self, operation):
        return any(begin <= min(operation.answered, FOREVER - 1) and operation.invoked <= end for begin, end in self.forgets)

    def must_have_ended(self, state, now):
        """Also if an operation of the holder that was never answered extended it. (So those are not searched through.)"""
        if state[2] is None or now <= state[4]:
            return False
        most_us = self.horizon_us + self.ttl_us + self.lag_us
        return not any(invoked <= now <= invoked + most_us for invoked in self.maybe_extended.get(state[2], ()))

    def extended(self, token, exact, client, now, operation):
        answered = operation.answered if operation.event == "ok" else operation.invoked + self.horizon_us
        must_end = answered + self.ttl_us + self.lag_us
        return (token, exact, client, now + int(self.ttl_us * (1 - CLOCK)) - CLOCK_US, must_end, now)

    @staticmethod
    def same_token(state, token):
        return token == state[0] if state[1] else token > state[0]

    def is_past(self, state, operation):
        """Whether it can no longer be answered as it was: its token is below the present one, and tokens only grow."""
        if operation.event != "ok" or not operation.token or operation.kind == "release":
            return False
        least = state[0] if state[1] else state[0] + 1
        return operation.token < least and not (operation.kind == "read" and self.forgot(operation))

    def free_at(self, state, now, operation):
        """The earliest time within the operation at which it is free, or None."""
        if state[2] is None:
            return now
        earliest = max(now, state[3])
        return earliest if earliest <= operation.answered else None

    def apply(self, state, now, operation):
        """All (state, now) that this operation can lead to."""
        return getattr(self, operation.kind)(state, max(now, operation.invoked), operation)

    def acquire(self, state, now, operation):
        client, token = operation.client, operation.token
        own = state[2] == client
        if operation.event == "held":
            if self.forgot(operation) or (state[2] not in (None, client) and not self.must_have_ended(state, now)):
                yield state, now
        elif operation.event == "ok":
            if own and self.same_token(state, token):
                yield self.extended(token, True, client, now, operation), now
            free = now if own else self.free_at(state, now, operation)
            if free is not None and token > state[0]:
                yield self.extended(token, True, client, free, operation), free
        else:
            # It was not noticed: it may have been at any time since the holder was last seen.
            since = max(operation.invoked, state[5] if own else state[3], state[5])
            if own:
                yield (state[0], state[1], None, since, 0, 0), now
            yield self.extended(state[0], False, client, since, operation), max(now, since)

    def renew(self, state, now, operation):
        holds = state[2] == operation.client and self.same_token(state, operation.token)
        if operation.event == "lost":
            ended = self.free_at(state, now, operation)
            if is_own_verdict(operation) or self.forgot(operation) or not holds:
                yield state, now
            elif ended is not None:
                yield (operation.token, True, None, ended, 0, 0), ended
        elif holds and (self.forgot(operation) or not self.must_have_ended(state, now)):
            yield self.extended(operation.token, True, operation.client, now, operation), now

    def release(self, state, now, operation):
        if state[2] == operation.client and self.same_token(state, operation.token):
            since = now if operation.event == "ok" else max(operation.invoked, state[5])
            yield (operation.token, True, None, since, 0, 0), now
        else:
            yield state, now

    def read(self, state, now, operation):
        if self.forgot(operation):
            yield state, now
        elif operation.holder:
            if state[2] == operation.holder and self.same_token(state, operation.token):
                yield (operation.token, True, *state[2:5], now), now
        else:
            free = self.free_at(state, now, operation)
            if free is not None and (operation.token == 0 or self.same_token(state, operation.token)):
                yield (operation.token or state[0], bool(operation.token) or state[1], None, free, 0, 0), free


def is_own_verdict(operation):
    """Of a renewal that is lost: the client's deadline had passed, and it said so itself."""
    return operation.answered >= operation.until_before - CLOCK_US


def given_up(operations):
    """What a client does within an acquire when its former lease ended by its own deadline: it gives back what the store may
    still have of that, then asks anew. Between the two another may be let in. So each such acquire has a release beside it,
    without an answer: (release, until when it can happen)."""
    former = {}
    for operation in sorted(operations, key=lambda each: each.invoked):
        client, kind, event = operation.client, operation.kind, operation.event
        token, until = former.get(client, (0, FOREVER))
        if kind == "acquire" and operation.invoked >= until - CLOCK_US:
            yield Operation(client, "release", "unknown", token, None, operation.invoked, FOREVER), operation.answered
        if event == "ok" and kind in ("acquire", "renew"):
            former[client] = operation.token, operation.until_after
        elif kind == "renew" and event == "lost" and is_own_verdict(operation):
            former[client] = operation.token, 0
        elif kind == "release" or (kind == "renew" and event == "lost"):
            former.pop(client, None)


class Undecided(Exception):
    """The search was given up."""


class Search:
    def __init__(self, operations, ttl_us, horizon_us, lag_us, forgets):
        maybe_extended = {}
        for each in operations:
            # A renewal whose client gave up at its own deadline may have arrived all the same.
            gave_up = each.kind == "renew" and each.event == "lost" and is_own_verdict(each)
            if gave_up or (each.event == "unknown" and each.kind in ("renew", "acquire")):
                maybe_extended.setdefault(each.client, []).append(each.invoked)
        self.model = Model(ttl_us, lag_us, forgets, maybe_extended, horizon_us)
        limits = [(each, each.invoked + horizon_us if each.event == "unknown" else FOREVER) for each in operations
                  if each.event != "unknown" or each.kind in ("acquire", "release")]
        limits += [(release, min(until, release.invoked + horizon_us)) for release, until in given_up(operations)]
        limits.sort(key=lambda each: each[0].invoked)
        self.operations, self.last = [each[0] for each in limits], [each[1] for each in limits]
        self.named = self.next_named()
        self.furthest, self.furthest_node, self.steps = 0, None, 0

    def next_named(self):
        """For each operation, the holder that the next read names."""
        named, holder = [], None
        for operation in reversed(self.operations):
            if operation.kind == "read" and operation.event == "ok" and operation.holder:
                holder = operation.holder
            named.append(holder)
        return named[::-1]

    def candidates(self, first, done, now):
        """What may come next: nothing that was answered before it was invoked is left. Answered ones come first. Of a
        client's acquires without an answer the oldest one that can still happen stands for all. With them comes the time
        by which the first of the answered ones must have happened, and the same for the others when that one is done."""
        limit, answered, unknown, clients = FOREVER, [], [], set()
        for index in range(first, len(self.operations)):
            operation = self.operations[index]
            if index in done:
                continue
            if operation.invoked > limit:
                break
            if operation.event != "unknown":
                answered.append(index)
                limit = min(limit, operation.answered)
            elif self.last[index] >= now and not (operation.kind == "acquire" and operation.client in clients):
                unknown.append(index)
                if operation.kind == "acquire":
                    clients.add(operation.client)
        answered.sort(key=lambda index: self.operations[index].answered)
        if answered:  # the likeliest first: who is said to be the holder soon has become it
            unknown.sort(key=lambda index: self.operations[index].client != self.named[answered[0]])
        ends = [self.operations[index].answered for index in answered[:2]] + [FOREVER, FOREVER]
        return answered + unknown, ends[0], ends[1]

    def next_nodes(self, first, done, state, now):
        """What has no answer is thought of only where something answered does not fit without it: it can have happened just
        before that, as long ago as the state allows (a free lease knows since when). Nothing may happen so late that
        something which is left would have happened after its answer."""
        stuck = False
        indices, first_end, second_end = self.candidates(first, done, now)
        if any(self.model.is_past(state, self.operations[index]) for index in indices):
            return
        for index in indices:
            operation = self.operations[index]
            if operation.event == "unknown" and not stuck:
                return
            fits = False
            end = second_end if operation.answered == first_end and index == indices[0] else first_end
            for after, then in self.model.apply(state, now, operation):
                if then > operation.answered or then > self.last[index] or then > end:
                    continue
                if operation.event == "unknown" and after == state:
                    continue  # as if it had never been
                fits = True
                yield self.advanced(first, done | {index}, after, then)
            stuck |= not fits

    def advanced(self, first, done, state, now):
        """Past what is done, and past what was never answered and no longer can matter."""
        while first < len(self.operations) and (first in done or self.last[first] < now):
            done = done - {first}
            first += 1
        return first, frozenset(done), state, now

    @staticmethod
    def is_new(seen, node):
        """Whether nothing that leaves as much room was tried before: earlier, with a lease that may end earlier and must
        end later, and whose holder was seen earlier."""
        first, done, (token, exact, holder, may_end, must_end, seen_at), now = node
        tried = seen.setdefault((first, done, token, exact, holder), [])
        if any(a <= now and b <= may_end and c >= must_end and d <= seen_at for a, b, c, d in tried):
            return False
        tried.append((now, may_end, must_end, seen_at))
        return True

    def is_complete(self, first, done):
        return all(index in done or self.operations[index].event == "unknown"
                   for index in range(first, len(self.operations)))

    def linearizable(self):
        seen, stack = {}, [self.next_nodes(0, frozenset(), Model.FIRST, 0)]
        if self.is_complete(0, ()):
            return True
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            first, done, state, now = node
            if not self.is_new(seen, node):
                continue
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Undecided(f"after {self.steps} steps, at {self.furthest} of {len(self.operations)} operations")
            if first + len(done) >= self.furthest:
                self.furthest, self.furthest_node = first + len(done), node
            if self.is_complete(first, done):
                return True
            stack.append(self.next_nodes(first, done, state, now))
        return False

    def explain(self):
        if self.furthest == 0:
            return [f"  nothing can come first: {self.operations[:3]}"]
        first, done, state, now = self.furthest_node
        token, exact, holder, may_end, must_end, _ = state
        lines = [f"  the furthest order ends at {now // 1000} with token {'' if exact else 'above '}{token}, holder {holder}, "
                 f"which may end from {may_end // 1000} and must by {must_end // 1000}; then none of these fits:"]
        return lines + [f"    {self.operations[index]}" for index in self.candidates(first, done, now)[0][:6]]


def check(target, operations, ttl_us, horizon_us, lag_us=0, forgets=()):
    """What is wrong with the history of a target: lines, none if it is linearizable."""
    search = Search(operations, ttl_us, horizon_us, lag_us, forgets)
    try:
        if search.linearizable():
            return []
        why = ["is not that of one lease"]
    except Undecided as undecided:
        why = [f"could not be decided {undecided}"]
    return [f"{target}: the history of {len(operations)} operations {why[0]}", *search.explain()]
