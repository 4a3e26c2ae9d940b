#!/bin/sh
# The fault proxy against an echo server: each command does to the bytes what its description says, and counts it. The
# program under test is the proxy alone; Tenure and real servers have no part in it.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

FAULT_PROXY=$TENURE_SOURCE/tests/lib/fault_proxy.py
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3
export FAULT_PROXY PYTHONDONTWRITEBYTECODE=1

# What the cases import: the server, the proxy as a child of theirs, and a client.
mkdir "$TAP_DIR/lib"
cat >"$TAP_DIR/lib/probe.py" <<'END'
import atexit
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time

LOCAL = "127.0.0.1"


def until(condition, seconds=3.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def ms_since(start):
    return (time.monotonic() - start) * 1000


class Server:
    """Needs `auth` first if it is told so, and sends all else back. Knows what it got."""
    def __init__(self, auth=False):
        self.auth, self.got, self.connections, self.ends = auth, [], 0, []
        self.sock = socket.create_server((LOCAL, 0))
        self.address = f"{LOCAL}:{self.sock.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            sock, _ = self.sock.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock):
        known = not self.auth
        try:
            while data := sock.recv(65536):
                known = known or data.startswith(b"auth\n")
                self.got.append(data if known else b"denied " + data)
                sock.sendall(data if known else b"denied\n")
            self.ends.append("fin")
        except OSError:
            self.ends.append("reset")
        sock.close()

    def times(self, data):
        return b"".join(self.got).count(data)


class Proxy:
    def __init__(self, to):
        self.control = os.path.join(os.environ["CASE"], "control")
        ready = os.path.join(os.environ["CASE"], "ready")
        self.process = subprocess.Popen([sys.executable, os.environ["FAULT_PROXY"], "--listen", f"{LOCAL}:0", "--to", to,
                                         "--control", f"unix:{self.control}", "--port-file", ready])
        atexit.register(self.process.kill)
        until(lambda: os.path.exists(ready), 10)
        with open(ready, encoding="utf-8") as file:
            self.place = (LOCAL, int(file.read()))

    def tell(self, command):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(self.control)
            sock.sendall(command.encode() + b"\n")
            return sock.makefile().readline().strip()

    def do(self, command):
        answer = self.tell(command)
        print(f"{command}: {answer}")
        assert answer.split()[0] == "ok", answer
        return answer[3:]

    def stats(self):
        return json.loads(self.tell("stats")[3:])

    def counted(self, **expected):
        found = self.stats()
        print(found)
        for name, value in expected.items():
            assert found[name] == value, f"{name} is {found[name]} instead of {value}"

    def connect(self):
        return socket.create_connection(self.place, 5)

    def resets_at_once(self):
        try:
            sock = self.connect()
        except ConnectionResetError:
            return
        was_reset(sock)

    def cpu_ms(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            ticks = file.read().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) * 1000 / os.sysconf("SC_CLK_TCK")

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def exactly(sock, size):
    parts = []
    while size and (data := sock.recv(min(size, 1 << 20))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def ask(sock, data, expected=None):
    sock.sendall(data)
    answer = exactly(sock, len(expected or data))
    assert answer == (expected or data), f"{data} was answered with {answer}"


def silent(sock, seconds=0.15):
    """Neither an answer nor an end."""
    assert not select.select([sock], [], [], seconds)[0], f"something came: {sock.recv(100)}"


def was_reset(sock):
    try:
        data = sock.recv(100)
    except ConnectionResetError:
        return
    assert False, f"{data} came instead of a reset"


def pair():
    server = Server()
    return server, Proxy(server.address)
END

# probe: runs the Python text of a case.
probe() {
    PYTHONPATH=$TAP_DIR/lib CASE=$CASE "$PYTHON" -u -
}

# ---- relaying

relays() {
    probe <<'END'
from probe import *
server, proxy = pair()
data = os.urandom(3_000_000)
sock = proxy.connect()
ask(sock, b"hello\n")
threading.Thread(target=sock.sendall, args=(data,)).start()
assert exactly(sock, len(data)) == data
sock.shutdown(socket.SHUT_WR)
assert sock.recv(1) == b"" and server.ends == ["fin"]
until(lambda: proxy.stats()["connections"] == 0)
proxy.counted(connections_ever=1, bytes_up=len(data) + 6, bytes_down=len(data) + 6, dropped_up=0, dropped_down=0)
END
}

slow_reader() {
    probe <<'END'
from probe import *
server, proxy = pair()
before = proxy.resident_mb()
slow, other = proxy.connect(), proxy.connect()
slow.setblocking(False)
block, sent = bytes(range(256)) * 4096, 0
while select.select([], [slow], [], 0.3)[1]:
    sent += slow.send(block[sent % len(block):])
    assert sent < 200_000_000, "nothing holds the sender back"
print(f"{sent} bytes went in, the proxy grew by {proxy.resident_mb() - before:.1f} MB")
assert proxy.resident_mb() - before < 20
ask(other, b"still quick\n")
busy = proxy.cpu_ms()
time.sleep(0.3)
assert proxy.cpu_ms() - busy < 50, "it spins while it waits for a reader"
slow.settimeout(5)
back = exactly(slow, sent)
assert len(back) == sent and back == (block * (sent // len(block) + 1))[:sent]
END
}

survives_resets() {
    probe <<'END'
from probe import *
import struct
server, proxy = pair()
block = bytes(300_000)
for turn in range(150):
    sock = proxy.connect()
    if turn % 3:
        sock.setblocking(False)
        sock.send(block)
    if turn % 2:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    if turn % 50 == 49:
        proxy.do("cut")
until(lambda: proxy.stats()["connections"] == 0)
ask(proxy.connect(), b"well\n")
server.sock.shutdown(socket.SHUT_RDWR)  # nobody listens there now
server.sock.close()
proxy.resets_at_once()
until(lambda: proxy.stats()["connect_failures"] == 1)
END
}

# What a server says before it hangs up reaches the client, although the client's request made a reset of it.
last_words() {
    probe <<'END'
from probe import *
listener = socket.create_server((LOCAL, 0))
proxy = Proxy(f"{LOCAL}:{listener.getsockname()[1]}")
proxy.do("hold down")
sock = proxy.connect()
server, _ = listener.accept()
server.sendall(b"too many clients\n")
server.close()
until(lambda: proxy.stats()["waiting"] == 17)
for _ in range(3):
    sock.sendall(b"hello\n")
    time.sleep(0.02)
proxy.do("clear")
assert exactly(sock, 17) == b"too many clients\n"
END
}

# ---- commands

delays() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
for command, least in (("delay 120", 240), ("delay 0 up", 120), ("delay 0", 0), ("delay 80 up", 80)):
    proxy.do(command)
    times = []
    while len(times) < 5 and not any(each < least + 100 for each in times):  # a loaded machine is late by itself
        start = time.monotonic()
        ask(sock, b"x\n")
        times.append(ms_since(start))
    print(f"{times} ms")
    assert least <= min(times) < least + 100
proxy.do("delay 100 both")
start = time.monotonic()
for number in range(50):
    sock.sendall(b"%02d" % number)
    time.sleep(0.001)
assert exactly(sock, 100) == b"".join(b"%02d" % number for number in range(50)), "the order was not kept"
assert ms_since(start) < 2000, "the delays add up"
assert proxy.stats()["delayed_up"] > 10 and proxy.stats()["delayed_down"] > 10
proxy.do("delay 5000")
sock.sendall(b"soon\n")
until(lambda: proxy.stats()["waiting"] == 5)
proxy.do("clear")
assert exactly(sock, 5) == b"soon\n"
END
}

drops_up() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
ask(sock, b"one\n")
proxy.do("drop up")
sock.sendall(b"two\n")
silent(sock)
fresh = proxy.connect()
fresh.sendall(b"three\n")
silent(fresh)
assert server.got == [b"one\n"]
proxy.counted(dropped_up=10, dropped_down=0, connections=2)
proxy.do("clear")
ask(sock, b"four\n")
ask(fresh, b"five\n")
assert server.got == [b"one\n", b"four\n", b"five\n"]
END
}

drops_down() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
ask(sock, b"one\n")
proxy.do("drop down")
sock.sendall(b"two\n")
until(lambda: server.times(b"two\n") == 1)
silent(sock)
proxy.counted(dropped_up=0, dropped_down=4)
sock.shutdown(socket.SHUT_WR)
until(lambda: server.ends == ["fin"])
silent(sock)  # the server's end does not get through either
proxy.do("clear")
assert sock.recv(1) == b""
END
}

holds() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
proxy.do("hold up")
sock.sendall(b"one\n")
silent(sock)
leaver = proxy.connect()
leaver.sendall(b"release\n")
until(lambda: proxy.stats()["waiting"] == 12)
leaver.close()
time.sleep(0.05)
assert server.got == []
proxy.do("clear")
assert exactly(sock, 4) == b"one\n"
until(lambda: server.times(b"release\n") == 1)
until(lambda: proxy.stats()["connections"] == 1)  # the reply to the one that left would be held, too
proxy.do("hold down")
sock.sendall(b"two\n")
until(lambda: server.times(b"two\n") == 1)
silent(sock)
proxy.do("clear")
assert exactly(sock, 4) == b"two\n"
proxy.counted(held_up=2, held_down=1, dropped_up=0, dropped_down=0, waiting=0)
END
}

cuts_with_reset() {
    probe <<'END'
from probe import *
server, proxy = pair()
socks = [proxy.connect() for _ in range(3)]
for sock in socks:
    ask(sock, b"x\n")
assert proxy.do("cut") == "3 connections"
for sock in socks:
    was_reset(sock)
until(lambda: server.ends == ["reset"] * 3)
fresh = proxy.connect()
ask(fresh, b"y\n")
proxy.counted(cuts=3, connections=1, connections_ever=4)
END
}

refuses() {
    probe <<'END'
from probe import *
server, proxy = pair()
old = proxy.connect()
ask(old, b"x\n")
proxy.do("refuse")
proxy.resets_at_once()
proxy.resets_at_once()
ask(old, b"y\n")
proxy.counted(refused=2, connections_ever=1)
assert server.connections == 1
proxy.do("clear")
ask(proxy.connect(), b"z\n")
END
}

half_opens() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
ask(sock, b"x\n")
assert proxy.do("half-open") == "1 connections"
until(lambda: server.ends == ["fin"])
fresh = proxy.connect()
for each in sock, fresh:
    each.sendall(b"anybody?\n")
    silent(each)
assert server.got == [b"x\n"] and server.connections == 1
proxy.counted(half_opened=2, dropped_up=18, connections=2)
proxy.do("clear")
ask(proxy.connect(), b"y\n")
sock.sendall(b"still nobody?\n")
silent(sock)
fresh.close()
until(lambda: proxy.stats()["connections"] == 1)
proxy.do("cut")
was_reset(sock)
END
}

swallows() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
ask(sock, b"one\n")
proxy.do("swallow 2")
for request in b"two\n", b"three\n":
    sock.sendall(request)
    silent(sock, 0.1)
ask(sock, b"four\n")
assert server.got == [b"one\n", b"two\n", b"three\n", b"four\n"]
proxy.counted(swallowed=2, cuts=0)
proxy.do("swallow 1")
proxy.do("clear")
ask(sock, b"five\n")
END
}

swallows_after() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock, other = proxy.connect(), proxy.connect()
proxy.do(r"swallow 1 cut after the lease\x0a")
ask(other, b"ping\n")
ask(sock, b"ping\n")
sock.sendall(b"take the lease\n")
was_reset(sock)
ask(other, b"the lease\n")
proxy.counted(swallowed=1, cuts=1)
END
}

replays() {
    probe <<'END'
from probe import *
server, proxy = pair()
assert proxy.tell("replay") == "error replay: no client has sent anything"
sock = proxy.connect()
ask(sock, b"release one\n")
ask(sock, b"release two\n")
sock.close()
proxy.do("drop")  # which does not reach the duplicate
assert proxy.do("replay") == "12 bytes sent again, 12 bytes answered"
assert server.times(b"release two\n") == 2 and server.times(b"release one\n") == 1 and server.connections == 2
proxy.counted(replays=1)
END
}

replays_match() {
    probe <<'END'
from probe import *
server, proxy = pair()
sock = proxy.connect()
for request in b"release one\n", b"release two\n", b"ping\n":
    ask(sock, request)
proxy.do("replay release")
assert server.got[-1] == b"release two\n"
proxy.do(r"replay e\x20one\n")
assert server.got[-1] == b"release one\n"
assert proxy.tell("replay nothing") == "error replay: no client has sent such a chunk"
server.sock.shutdown(socket.SHUT_RDWR)
server.sock.close()
assert "refused" in proxy.tell("replay ping")
END
}

replays_session() {
    probe <<'END'
from probe import *
server = Server(auth=True)
proxy = Proxy(server.address)
sock, other = proxy.connect(), proxy.connect()
for each, request in ((sock, b"auth\n"), (other, b"auth\n"), (sock, b"release\n"), (other, b"x\n"), (sock, b"ping\n")):
    ask(each, request)
proxy.do("replay release")
assert server.got[-1] == b"denied release\n"
proxy.do("replay-session release")
until(lambda: b"".join(server.got).endswith(b"auth\nrelease\n"))
END
}

refuses_nonsense() {
    probe <<'END'
from probe import *
server, proxy = pair()
for command in ("", "dorp", "delay", "delay x", "delay -1", "delay 5 sideways", "delay 99999999999", "drop up down",
                "cut off", "refuse me", "swallow", "swallow 0", "swallow 1 whole", "swallow 1 after", "swallow 1\tafter x",
                "replay-session", r"replay \u1234", r"replay \x", "clear all", "stats all", "half-open now"):
    answer = proxy.tell(command)
    print(f"{command}: {answer}")
    assert answer.startswith("error "), f"{command} was done"
ask(proxy.connect(), b"x\n")
with socket.socket(socket.AF_UNIX) as several:
    several.connect(proxy.control)
    several.sendall(b"delay 1\nreplay\ndorp\n")
    lines = several.makefile()
    assert [lines.readline().split()[0] for _ in range(3)] == ["ok", "ok", "error"]
END
}

# ---- the process

# relay COMMAND...: a proxy to nowhere, started by that command, or by us.
relay() {
    background relay "$@" "$PYTHON" "$FAULT_PROXY" --listen 127.0.0.1:0 --to 127.0.0.1:1 --control "unix:$CASE/control" \
        --port-file "$CASE/port"
    until_true 10 test -s "$CASE/port"
}
tell() { "$PYTHON" "$FAULT_PROXY" --tell "unix:$CASE/control" "$@"; }

tells() {
    relay
    exits 0 tell delay 20 up
    out_is ''
    exits 0 tell stats
    same 'the number of connections' "$(field connections_ever)" 0
    exits 1 tell dorp
    out_is ''
    err_has "there is no command 'dorp'"
    kill -TERM "$PID"
    ended 0 "$PID"
    exits 1 tell stats
    err_has "$CASE/control"
    exits 2 "$PYTHON" "$FAULT_PROXY" --listen 127.0.0.1:0
    exits 1 "$PYTHON" "$FAULT_PROXY" --listen 127.0.0.1:0 --to nowhere --control "unix:$CASE/control"
    err_has 'nowhere'
}

# is_gone PID: it no longer runs, and has left nothing (a zombie does not run).
is_gone() { [ ! -e "$CASE/control" ] && ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status"; }

dies_with_parent() {
    # shellcheck disable=SC2016
    relay sh -c '"$@" & echo $! >child; wait' sh
    child=$(cat child)
    echo "$child" >>"$CASE/pids"
    kill -0 "$child"
    kill -KILL "$PID"
    until_true 5 is_gone "$child"
}

it 'bytes and ends pass unchanged both ways' relays
it 'a reader that is slow holds back its own sender only, and no bytes pile up' slow_reader
it 'resets from all sides do not end the proxy, and a server that is absent means a reset' survives_resets
it 'what a server says before it hangs up reaches the client' last_words
it 'delay: each chunk comes later, in order, each way by itself' delays
it 'drop up: requests vanish, also on new connections, and the connections live' drops_up
it 'drop down: the server gets requests, its replies and its end do not get through' drops_down
it 'hold: bytes come late, even when their sender has left' holds
it 'cut resets both sides of every connection' cuts_with_reset
it 'refuse resets new connections only, until clear' refuses
it 'half-open: the server sees an end, the client nothing, and new connections hang' half_opens
it 'swallow: the request arrives, the reply vanishes, the connection goes on' swallows
it 'swallow after: only the reply to the request that is meant vanishes' swallows_after
it 'replay: the last request of a client that has left arrives once more' replays
it 'replay MATCH: the last request that has these bytes arrives once more' replays_match
it 'replay-session: what its connection had sent before goes ahead of it' replays_session
it 'a command that makes no sense is answered with the reason and does nothing' refuses_nonsense
it '--tell prints the answer, and its exit code says whether it was done' tells
it 'it ends when its parent was killed' dies_with_parent
finish
