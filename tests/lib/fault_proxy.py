#!/usr/bin/env python3
"""A relay that tests put between Tenure and a real server, to do harm to what passes. It knows no protocol: a chunk is
what one read from a socket gave (64 KiB at most), so a request or a reply is usually one chunk, but need not be.

    fault_proxy.py --listen HOST:PORT --to HOST:PORT --control unix:PATH [--port-file FILE]
    fault_proxy.py --tell unix:PATH COMMAND...

With --listen HOST:0 the system chooses a port. FILE is written when all is ready: it holds the port. It ends with 0 on
SIGTERM, and when its parent has ended. --tell prints what follows `ok` and exits 0, or prints what follows `error` on
standard error and exits 1.

Commands, for the connections that there are and for new ones; "up" is towards the server; without a way, both are meant:

    delay MS [up|down|both]  each chunk that comes from now on is delivered MS later, in order; 0 is no delay
    drop [up|down|both]      bytes vanish, also those that were on their way; the end of a connection is kept for `clear`
    hold [up|down|both]      bytes are kept until `clear` and delivered then, even if their sender has gone meanwhile
    cut                      every connection is reset; what was on its way is lost
    refuse                   new connections are reset at once
    half-open                the server sees its connections close, the clients see nothing, for ever; new ones hang too
    swallow N [cut] [after MATCH]
                             the next N chunks from the server vanish; cut: then the connections that missed them are
                             reset; after: only a chunk that follows a request with MATCH in it, on its connection
    replay [MATCH]           the last chunk that a client sent (with MATCH in it) is sent again to the server, over a
                             connection of its own that no fault reaches; answers when the server's reply has ended
    replay-session MATCH     the same, with all that its connection had sent before
    clear                    plain relaying
    stats                    what was done so far, as JSON

MATCH is the rest of the line, with \\r, \\n, \\xHH and \\\\ as in Python. What `half-open` did to a connection is not undone
by `clear`, only by `cut`.
The kernel acknowledges what the relay reads: keep-alives and TCP_USER_TIMEOUT of a client see a peer that lives.
"""
import argparse
import collections
import contextlib
import errno
import heapq
import itertools
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time

CHUNK = 64 * 1024
PROMPT_LIMIT = 256 * 1024       # of bytes that wait for a slow reader: then its peer has to wait as well
LATE_LIMIT = 64 * 1024 * 1024   # of bytes that a fault keeps: a limit on a delay would be one on the throughput
HISTORY_LIMIT = 16 * 1024 * 1024
LINE_LIMIT = 64 * 1024
QUIET_S, ANSWER_S = 0.05, 2.0   # a reply to a replay has ended after so much silence; one that does not begin is given up
RESET = struct.pack("ii", 1, 0)
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Refusal(Exception):
    """Why a command is not done."""


class Address:
    def __init__(self, text):
        self.text = text
        if text.startswith("unix:"):
            self.family, self.place = socket.AF_UNIX, text[5:]
            if not 0 < len(os.fsencode(self.place)) < 104 or "\0" in self.place:
                raise Refusal(f"'{text}' is not a path that a socket can have")
            return
        host, _, port = text.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise Refusal(f"'{text}' is not HOST:PORT or unix:PATH")
        try:
            found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Refusal(f"cannot find {text}: {error}") from error
        self.family, _, _, _, self.place = min(found, key=lambda each: each[0] != socket.AF_INET)

    def socket(self):
        return prepared(socket.socket(self.family, socket.SOCK_STREAM))


def prepared(sock):
    sock.setblocking(False)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Loop:
    """Waits for sockets and for times. Whoever registers a socket must take something from it when called."""
    def __init__(self):
        self.selector, self.timers, self.order, self.running = selectors.DefaultSelector(), [], itertools.count(), True

    def at(self, when, function):
        heapq.heappush(self.timers, (when, next(self.order), function))

    def stop(self, _events=None):
        self.running = False

    def run(self):
        while self.running:
            wait = max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else None
            for key, events in self.selector.select(wait):
                key.data(events)
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()


class Listener:
    """A place to listen at."""
    def __init__(self, loop, address, accepted):
        self.loop, self.accepted, self.sock = loop, accepted, address.socket()
        try:
            if address.family != socket.AF_UNIX:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.sock.bind(address.place)
            self.sock.listen(4096)
        except OSError as error:
            raise Refusal(f"cannot listen at {address.text}: {error.strerror or error}") from error
        self.wake()

    def wake(self):
        self.loop.selector.register(self.sock, READ, self.accept)

    def accept(self, _events=None):
        while True:
            try:
                client, _ = self.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    continue  # that client has gone already
                if self.sock in self.loop.selector.get_map():
                    self.loop.selector.unregister(self.sock)  # it would be called again at once, and again
                    self.loop.at(time.monotonic() + 0.1, self.wake)
                return
            self.accepted(prepared(client))


class Way:
    """What is done to one direction of all connections, and what was."""
    def __init__(self, name):
        self.name, self.mode, self.delay = name, "pass", 0.0
        self.bytes = self.chunks = self.dropped = self.delayed = self.held = 0


class Side:
    """One socket of a connection. It is registered for what is wanted of it and for nothing else, so nothing spins."""
    def __init__(self, link, sock):
        self.link, self.sock, self.loop = link, sock, link.proxy.loop
        self.open = sock is not None
        self.ready = self.open      # bytes may be written
        self.connecting = False     # it tells by becoming writable
        self.events = 0
        self.incoming = self.outgoing = None

    def connect(self, address):
        self.ready = False
        if not self.open:
            return
        error = self.sock.connect_ex(address.place)
        if error == errno.EAGAIN:  # a unix server with a full backlog, which epoll cannot wait for
            self.loop.at(time.monotonic() + 0.01, lambda: self.connect(address))
        elif error == errno.EINPROGRESS:
            self.connecting = True
            self.watch()
        else:
            self.connected(error)

    def connected(self, error):
        self.connecting = False
        if error:
            self.link.proxy.connect_failures += 1
            self.link.lost(self)
        else:
            self.ready = True
            self.outgoing.pump()

    def watch(self):
        if not self.open:
            return
        wanted = 0
        if self.connecting or self.outgoing.blocked:
            wanted |= WRITE
        if self.ready and self.incoming.wants_more():
            wanted |= READ
        if wanted == self.events:
            return
        if not self.events:
            self.loop.selector.register(self.sock, wanted, self.happened)
        elif wanted:
            self.loop.selector.modify(self.sock, wanted, self.happened)
        else:
            self.loop.selector.unregister(self.sock)
        self.events = wanted

    def happened(self, events):
        if self.open and events & WRITE:
            if self.connecting:
                self.connected(self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            else:
                self.outgoing.pump()
        if self.open and events & READ and self.ready:
            self.incoming.read()

    def close(self, how="fin"):
        if not self.open:
            return
        self.open = self.ready = False
        if self.events:
            self.loop.selector.unregister(self.sock)
        try:
            if how == "reset":
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            else:
                # Closing a socket that has unread bytes resets it: so the end is sent first, and they are read.
                self.sock.shutdown(socket.SHUT_WR)
                while self.sock.recv(CHUNK):
                    pass
        except OSError:
            pass
        self.sock.close()


class Pipe:
    """One direction of one connection: the chunks that came and were not delivered yet, and how it ended."""
    def __init__(self, link, way, source, sink):
        self.link, self.way, self.source, self.sink = link, way, source, sink
        source.incoming = sink.outgoing = self
        self.queue, self.queued = collections.deque(), 0  # of (when it is due, bytes)
        self.blocked = False   # the sink takes no more for now
        self.end = None        # how the source ended: fin or reset
        self.end_due, self.ended = 0.0, False
        self.timer = None

    def wants_more(self):
        if self.end:
            return False
        limit = LATE_LIMIT if self.way.delay or self.way.mode == "hold" else PROMPT_LIMIT
        return self.queued < limit

    def due(self):
        return time.monotonic() + self.way.delay if self.way.delay else 0.0

    def read(self):
        try:
            data = self.source.sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.link.lost(self.source)
            return
        if data:
            self.take(data)
        else:
            self.finish("fin")

    def read_rest(self):
        """Its peer has gone, but what it had sent before counts."""
        seen = None
        while self.source.open and not self.end and seen != self.way.chunks:
            seen = self.way.chunks
            self.read()

    def take(self, data):
        way = self.way
        way.chunks += 1
        if way.name == "up":
            self.link.proxy.remember(self.link, data)
        if way.mode == "drop" or self.link.half_open:
            way.dropped += len(data)
        elif self.sink.open and not self.link.proxy.swallows(self.link, way, data):
            way.delayed += way.delay > 0
            way.held += way.mode == "hold"
            self.queue.append((self.due(), data))
            self.queued += len(data)
            self.pump()

    def finish(self, kind):
        if self.end in (kind, "reset"):
            return
        self.end, self.end_due, self.ended = kind, self.due(), False
        if self.sink.open:
            self.pump()
        else:
            self.link.close()

    def pump(self):
        """Delivers what may be delivered."""
        if not self.link.open:
            return
        self.blocked = False
        if self.sink.ready and self.way.mode != "hold":
            self.push()
        self.source.watch()
        self.sink.watch()

    def push(self):
        while self.queue:
            due, data = self.queue[0]
            if due and due > time.monotonic():
                self.wake_at(due)
                return
            try:
                sent = self.sink.sock.send(data)
            except BlockingIOError:
                self.blocked = True
                return
            except OSError:
                self.link.deaf(self.sink)
                return
            self.queued -= sent
            self.way.bytes += sent
            if sent < len(data):
                self.queue[0] = (due, data[sent:])
            else:
                self.queue.popleft()
        if self.end and not self.ended and self.way.mode == "pass":
            if self.end_due > time.monotonic():
                self.wake_at(self.end_due)
            else:
                self.deliver_end()

    def deliver_end(self):
        self.ended = True
        if self.end == "reset":
            self.link.close("reset")
            return
        try:
            self.sink.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self.link.up.ended and self.link.down.ended:
            self.link.close()

    def wake_at(self, due):
        if self.timer is None or due < self.timer:
            self.timer = due
            self.link.proxy.loop.at(due, self.woken)

    def woken(self):
        self.timer = None
        self.pump()

    def forget(self):
        """What was on its way is lost."""
        lost = self.queued
        self.queue.clear()
        self.queued = 0
        self.blocked = False
        return lost

    def hurry(self):
        self.queue = collections.deque((0.0, data) for _, data in self.queue)
        self.end_due = 0.0
        self.pump()


class Link:
    """A client's connection and ours to the server."""
    def __init__(self, proxy, number, client):
        self.proxy, self.number, self.open, self.half_open = proxy, number, True, proxy.half_open
        self.sent = 0            # chunks from the client
        self.awaited = False     # a request was sent whose reply is to be swallowed
        server = None if self.half_open else proxy.to.socket()
        self.client, self.server = Side(self, client), Side(self, server)
        self.up = Pipe(self, proxy.ways["up"], self.client, self.server)
        self.down = Pipe(self, proxy.ways["down"], self.server, self.client)

    def start(self):
        self.server.connect(self.proxy.to)
        self.client.watch()

    def lost(self, side):
        """Its peer was reset or never there. The other side learns of it when what came before has been delivered, and
        then by an orderly end, since a reset could overtake the bytes."""
        if side.open:
            side.close("reset")
            side.outgoing.forget()
            side.incoming.finish("fin" if side.incoming.queue else "reset")

    def deaf(self, side):
        """It could not be written to."""
        ended_before = side.incoming.end
        side.incoming.read_rest()
        if side.incoming.end and not ended_before:
            side.close()
            side.outgoing.forget()
        else:
            self.lost(side)

    def halve(self):
        self.half_open = True
        self.up.way.dropped += self.up.forget()
        self.down.way.dropped += self.down.forget()
        self.server.close()
        if self.up.end:
            self.close()  # the client has gone already
        else:
            self.client.watch()

    def cut(self):
        self.up.way.dropped += self.up.forget()
        self.down.way.dropped += self.down.forget()
        self.proxy.cuts += 1
        self.close("reset")

    def close(self, how="fin"):
        if self.open:
            self.open = False
            del self.proxy.links[self.number]
            self.client.close(how)
            self.server.close(how)


class Replay:
    """Bytes that are sent again. `done` is called with the answer for whoever asked."""
    def __init__(self, proxy, data, done):
        self.loop, self.left, self.size, self.got, self.done = proxy.loop, data, len(data), 0, done
        self.to, self.sock = proxy.to, proxy.to.socket()
        self.quiet_at = self.give_up_at = time.monotonic() + ANSWER_S
        error = self.sock.connect_ex(self.to.place)
        if error not in (0, errno.EINPROGRESS):
            self.finish(f"error cannot connect to {self.to.text}: {os.strerror(error)}")
            return
        self.loop.selector.register(self.sock, READ | WRITE, self.happened)
        self.loop.at(self.give_up_at, self.look)

    def happened(self, events):
        if not self.sock:
            return
        try:
            if events & WRITE:
                self.left = self.left[self.sock.send(self.left):]
                if not self.left:
                    self.loop.selector.modify(self.sock, READ, self.happened)
            if events & READ:
                reply = self.sock.recv(CHUNK)
                if not reply:
                    self.finish()
                    return
                self.got += len(reply)
                self.quiet_at = time.monotonic() + QUIET_S
                self.loop.at(self.quiet_at, self.look)
        except BlockingIOError:
            pass
        except OSError as error:
            self.finish(f"error the server at {self.to.text}: {error.strerror}" if self.left else None)

    def look(self):
        if self.sock and time.monotonic() >= min(self.quiet_at, self.give_up_at):
            self.finish()

    def finish(self, answer=None):
        if self.sock.fileno() in self.loop.selector.get_map():
            self.loop.selector.unregister(self.sock)
        self.sock.close()
        self.sock = None
        if not answer and self.left:
            answer = "error the server did not take all of it"
        self.done(answer or f"ok {self.size} bytes sent again, {self.got} bytes answered")


class Swallow:
    def __init__(self, left, cut, match):
        self.left, self.cut, self.match, self.links = left, cut, match, []


class Proxy:
    """The connections, the faults and the commands."""
    def __init__(self, loop, listen, to):
        self.loop, self.to = loop, to
        self.ways = {"up": Way("up"), "down": Way("down")}
        self.links, self.ever = {}, 0
        self.refusing = self.half_open = False
        self.swallow = None
        self.history, self.remembered = collections.deque(), 0  # of (link, its how manieth chunk, bytes)
        self.cuts = self.refused = self.half_opened = self.swallowed = self.replays = self.connect_failures = 0
        self.listener = Listener(loop, listen, self.accepted)

    def accepted(self, client):
        if self.refusing:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
            self.refused += 1
            return
        self.ever += 1
        self.half_opened += self.half_open
        try:
            link = self.links[self.ever] = Link(self, self.ever, client)
        except OSError:  # no file descriptor left for the server's side
            client.close()
            return
        link.start()

    def remember(self, link, data):
        self.history.append((link.number, link.sent, data))
        link.sent += 1
        self.remembered += len(data) + 100
        while self.remembered > HISTORY_LIMIT:
            self.remembered -= len(self.history.popleft()[2]) + 100

    def swallows(self, link, way, data):
        """Whether this chunk is one that vanishes."""
        swallow = self.swallow
        if not swallow:
            return False
        if way.name == "up":
            link.awaited = link.awaited or swallow.match is None or swallow.match in data
            return False
        if swallow.match is not None and not link.awaited:
            return False
        link.awaited = False
        swallow.left -= 1
        swallow.links.append(link)
        self.swallowed += 1
        if swallow.left == 0:
            self.swallow = None
            for each in swallow.links if swallow.cut else ():
                if each.open:
                    each.cut()
        return True

    # ---- commands: each is given its words and the rest of its line, and gives its answer, or None and answers later

    def obey(self, line, answer):
        name, _, rest = line.strip().partition(" ")
        function = getattr(self, "do_" + name.replace("-", "_"), None)
        if not function:
            return f"error there is no command '{name}'"
        self.listener.accept()  # who has connected before is meant too
        try:
            return function(rest.split(), rest, answer)
        except (Refusal, OSError) as reason:
            return f"error {name}: {reason}"

    def ways_of(self, words):
        if len(words) > 1 or (words and words[0] not in ("up", "down", "both")):
            raise Refusal(f"'{' '.join(words)}' is not up, down or both")
        return list(self.ways.values()) if not words or words[0] == "both" else [self.ways[words[0]]]

    def pipes(self, ways):
        return [pipe for link in list(self.links.values()) for pipe in (link.up, link.down) if pipe.way in ways]

    def number(self, words):
        if not words or not (words[0].isascii() and words[0].isdigit() and len(words[0]) < 10):
            raise Refusal("it needs a number below 1000000000")
        return int(words[0])

    def alone(self, words):
        if words:
            raise Refusal(f"'{' '.join(words)}' is too much")

    def do_delay(self, words, _rest, _answer):
        delay = self.number(words) / 1000
        for way in self.ways_of(words[1:]):
            way.delay = delay
        return "ok"

    def do_drop(self, words, _rest, _answer):
        ways = self.ways_of(words)
        for way in ways:
            way.mode = "drop"
        for pipe in self.pipes(ways):
            pipe.way.dropped += pipe.forget()
            pipe.pump()
        return "ok"

    def do_hold(self, words, _rest, _answer):
        ways = self.ways_of(words)
        for way in ways:
            way.mode = "hold"
        for pipe in self.pipes(ways):
            pipe.pump()
        return "ok"

    def do_cut(self, words, _rest, _answer):
        self.alone(words)
        links = list(self.links.values())
        for link in links:
            link.cut()
        return f"ok {len(links)} connections"

    def do_refuse(self, words, _rest, _answer):
        self.alone(words)
        self.refusing = True
        return "ok"

    def do_half_open(self, words, _rest, _answer):
        self.alone(words)
        self.half_open = True
        links = [link for link in self.links.values() if not link.half_open]
        for link in links:
            link.halve()
        self.half_opened += len(links)
        return f"ok {len(links)} connections"

    def do_swallow(self, words, rest, _answer):
        left = self.number(words)
        cut = words[1:2] == ["cut"]
        words = words[2 if cut else 1:]
        _, _, match = rest.partition(" after ")
        if left == 0 or (words and (words[0] != "after" or not match)):
            raise Refusal("it is N [cut] [after MATCH], and N is 1 at least")
        for link in self.links.values():
            link.awaited = False
        self.swallow = Swallow(left, cut, bytes_of(match) if words else None)
        return "ok"

    def last_chunk(self, match):
        for chunk in reversed(self.history):
            if match in chunk[2]:
                return chunk
        raise Refusal("no client has sent such a chunk" if match else "no client has sent anything")

    def do_replay(self, _words, rest, answer):
        self.send_again(self.last_chunk(bytes_of(rest))[2], answer)

    def do_replay_session(self, words, rest, answer):
        if not words:
            raise Refusal("it needs a MATCH")
        number, last, _ = self.last_chunk(bytes_of(rest))
        session = [data for link, index, data in self.history if link == number and index <= last]
        if len(session) != last + 1:
            raise Refusal("the beginning of that connection is too long ago")
        self.send_again(b"".join(session), answer)

    def send_again(self, data, answer):
        self.replays += 1
        Replay(self, data, answer)

    def do_clear(self, words, _rest, _answer):
        self.alone(words)
        self.refusing = self.half_open = False
        self.swallow = None
        for way in self.ways.values():
            way.mode, way.delay = "pass", 0.0
        for pipe in self.pipes(self.ways.values()):
            pipe.hurry()
        return "ok"

    def do_stats(self, words, _rest, _answer):
        self.alone(words)
        up, down = self.ways["up"], self.ways["down"]
        return "ok " + json.dumps({
            "connections": len(self.links), "connections_ever": self.ever, "connect_failures": self.connect_failures,
            "bytes_up": up.bytes, "bytes_down": down.bytes, "chunks_up": up.chunks, "chunks_down": down.chunks,
            "delayed_up": up.delayed, "delayed_down": down.delayed, "dropped_up": up.dropped,
            "dropped_down": down.dropped, "held_up": up.held, "held_down": down.held,
            "waiting": sum(pipe.queued for pipe in self.pipes(self.ways.values())),
            "cuts": self.cuts, "refused": self.refused, "half_opened": self.half_opened, "swallowed": self.swallowed,
            "replays": self.replays})


def bytes_of(text):
    try:
        return text.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")
    except UnicodeError as error:
        raise Refusal(f"'{text}': {error}") from error


class Channel:
    """Somebody who gives commands. The next one is read when the last one has been answered."""
    def __init__(self, loop, proxy, sock):
        self.loop, self.proxy, self.sock, self.buffer, self.busy = loop, proxy, sock, b"", False
        loop.selector.register(sock, READ, self.happened)

    def happened(self, _events):
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.buffer += data
        if not data or len(self.buffer) > LINE_LIMIT:
            self.close()
        else:
            self.go_on()

    def go_on(self):
        while self.sock and not self.busy and b"\n" in self.buffer:
            line, _, self.buffer = self.buffer.partition(b"\n")
            self.busy = True
            answer = self.proxy.obey(line.decode("utf-8", "surrogateescape"), self.answered_late)
            if answer is not None:
                self.answer(answer)

    def answer(self, text):
        self.busy = False
        if self.sock:
            try:
                self.sock.send(text.encode("utf-8", "surrogateescape") + b"\n")
            except OSError:
                self.close()

    def answered_late(self, text):
        self.answer(text)
        self.go_on()

    def close(self):
        self.loop.selector.unregister(self.sock)
        self.sock.close()
        self.sock = None


def tell(address, words):
    line = os.fsencode(" ".join(words))
    if not line or b"\n" in line:
        raise Refusal("--tell needs one command in one line")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        try:
            sock.connect(address.place)
            sock.sendall(line + b"\n")
            answer = sock.makefile("rb").readline()
        except OSError as error:
            raise Refusal(f"{address.text}: {error.strerror or error}") from error
    kind, _, text = answer.rstrip(b"\n").partition(b" ")
    if kind != b"ok":
        raise Refusal(os.fsdecode(text) or "it has ended without an answer")
    sys.stdout.buffer.write(text + b"\n" if text else b"")


def relay(options):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop = Loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    loop.selector.register(os.pidfd_open(os.getppid()), READ, loop.stop)
    proxy = Proxy(loop, Address(options.listen), Address(options.to))
    Listener(loop, Address(options.control), lambda sock: Channel(loop, proxy, sock))
    try:
        if options.port_file:
            with open(options.port_file + ".new", "w", encoding="utf-8") as file:
                file.write(f"{proxy.listener.sock.getsockname()[1]}\n")
            os.rename(options.port_file + ".new", options.port_file)
        loop.run()
    finally:
        os.unlink(options.control[len("unix:"):])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--listen", "--to", "--control", "--port-file", "--tell"):
        parser.add_argument(name)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.tell and not (options.listen and options.to and options.control and not options.command):
        parser.error("it needs --listen, --to and --control, or --tell and a command")
    for name in ("control", "tell"):
        if not (getattr(options, name) or "unix:").startswith("unix:"):
            parser.error(f"--{name} needs unix:PATH")
    try:
        if options.tell:
            tell(Address(options.tell), options.command)
        else:
            relay(options)
    except Refusal as refusal:
        print(f"fault_proxy: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
