"""Three members of an etcd. See stores.py. A fault that makes another lead is one after which newcomers wait."""
import json
import os
import signal
import urllib.error
import urllib.request

from processes import PATIENCE_S, Port, Trouble, ask_program, end, freeze, send, start, wait_until
from stores import Store

MEMBERS = 3


class Etcd(Store):
    name = "etcd"
    ttl_ms = 3000
    may_lag_ms = 1500  # it looks for leases that have ended twice a second, and counts whole seconds
    pause_s = 2.0      # until it has a leader again
    harms = {"leader-killed": (0.4, 1.0), "leader-stopped": (0.7, 1.3), "member-killed": (0.4, 1.0),
             "member-stopped": (0.4, 1.2), "quorum-lost": (0.4, 0.9), "all-restarted": None,
             "compacted": None}
    # A member that comes back asks for another term, and the leader changes.
    renewing = ("leader-killed", "leader-stopped", "member-killed", "member-stopped", "quorum-lost", "all-restarted")

    def start(self):
        self.hit, self.restores = [], 0
        self.reserved = [Port() for _ in range(2 * MEMBERS)]
        self.ports = [port.number for port in self.reserved]
        self.processes = [None] * MEMBERS
        for number in range(MEMBERS):
            self.run(number)
        self.wait_for_leader()

    def cluster(self):
        return ",".join(f"m{each}=http://127.0.0.1:{self.ports[MEMBERS + each]}" for each in range(MEMBERS))

    def data(self, number):
        return f"{self.directory}/m{number}-{self.ports[0]}-{self.restores}"

    def run(self, number):
        client, peer = (f"http://127.0.0.1:{self.ports[place]}" for place in (number, MEMBERS + number))
        self.processes[number] = start(
            ["etcd", "--name", f"m{number}", "--data-dir", self.data(number),
             "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", self.cluster(), "--initial-cluster-token",
             str(self.ports[0]), "--logger", "zap", "--log-level", "error"], self.log(f"etcd-{number}"), out="log")

    def ask(self, number, path, question):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[number]}/v3/{path}", json.dumps(question).encode())
        try:
            with urllib.request.urlopen(request, timeout=0.5) as answer:
                return json.load(answer)
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise Trouble(f"etcd, {path}: {error}") from error

    def leads(self, number):
        try:
            status = self.ask(number, "maintenance/status", {})
        except Trouble:
            return False
        return status.get("leader", "0") != "0" and status["leader"] == status["header"]["member_id"]

    def leader(self):
        """Its number. Trouble: there is none at the moment."""
        for number in range(MEMBERS):
            if self.processes[number].poll() is None and self.leads(number):
                return number
        raise Trouble("etcd has no leader")

    def wait_for_leader(self):
        wait_until(PATIENCE_S, f"etcd has a leader; see {self.log('etcd-0')}", lambda: any(
            process.poll() is None and self.leads(number) for number, process in enumerate(self.processes)))

    def stop(self):
        for process in self.processes:
            end(process)
        for port in self.reserved:
            port.close()

    def addresses(self):
        return [f"127.0.0.1:{port}" for port in self.ports[:MEMBERS]]

    def url(self, ports=None):
        return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in ports or self.ports[:MEMBERS])

    # ---- faults

    def kill(self, *numbers):
        self.hit = list(numbers)
        for number in numbers:
            end(self.processes[number])

    def freeze(self, number):
        self.hit = [number]
        freeze(self.processes[number].pid)

    def start_again(self):
        for number in self.hit:
            self.run(number)
        self.wait_for_leader()

    def go_on(self):
        for number in self.hit:
            send(self.processes[number].pid, signal.SIGCONT)

    def follower(self):
        return (self.leader() + 1) % MEMBERS

    def do_leader_killed(self):
        self.kill(self.leader())

    def do_member_killed(self):
        self.kill(self.follower())

    def do_quorum_lost(self):
        leader = self.leader()
        self.kill(leader, (leader + 1) % MEMBERS)

    def do_all_restarted(self):
        self.kill(*range(MEMBERS))
        self.start_again()

    undo_leader_killed = undo_member_killed = undo_quorum_lost = start_again

    def do_compacted(self):
        """All history is gone: a watch that is behind is cancelled."""
        leader = self.leader()
        revision = self.ask(leader, "maintenance/status", {})["header"]["revision"]
        self.ask(leader, "kv/compaction", {"revision": revision, "physical": True})

    def do_leader_stopped(self):
        self.freeze(self.leader())

    def do_member_stopped(self):
        self.freeze(self.follower())

    undo_leader_stopped = undo_member_stopped = go_on


class RestoredEtcd(Etcd):
    """A snapshot is saved, and some time later all members go on with what it has. Newcomers wait for 30 s."""
    name = "etcd-restored"
    loses_data = True
    harms = {"snapshot-restored": (0.3, 1.0)}
    forgetful = ("snapshot-restored",)
    renewing = ()
    recovers_ms = 30000
    takeovers = 0.3
    pause_s = 45.0  # longer than newcomers wait: else nobody ever enters

    def tool(self, *words):
        return ask_program(["env", "ETCDCTL_API=3", "etcdctl", "--endpoints", f"http://127.0.0.1:{self.ports[0]}", *words])

    def snapshot(self):
        return f"{self.directory}/snapshot"

    def do_snapshot_restored(self):
        self.tool("snapshot", "save", self.snapshot())

    def undo_snapshot_restored(self):
        self.kill(*range(MEMBERS))
        self.restores += 1
        for number in range(MEMBERS):
            self.tool("snapshot", "restore", self.snapshot(), "--name", f"m{number}", "--data-dir", self.data(number),
                      "--initial-cluster", self.cluster(), "--initial-advertise-peer-urls",
                      f"http://127.0.0.1:{self.ports[MEMBERS + number]}", "--initial-cluster-token", str(self.ports[0]))
        os.unlink(self.snapshot())
        self.start_again()
