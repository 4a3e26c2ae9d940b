"""Stores that fail over: Redis with replicas and Sentinels, and PostgreSQL with two synchronous standbys. A fault here makes
another server the master, or the primary, while the former one may live on; with wait_replicas, and with synchronous
standbys, not both can grant and renew. See stores.py."""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile

from processes import PATIENCE_S, Port, Trouble, ask_program, end, freeze, send, start, try_until, wait_until
from stores import Store
from stores_sql import server_program, unprivileged


class Sentinel(Store):
    """One master, two replicas, three Sentinels; a lease counts when one replica has it."""
    name = "redis-sentinel"
    ttl_ms = 4000
    loses_data = True
    recovers_ms = 4000  # a failover takes a while
    slow_to_heal = True
    pause_s = 2.0
    harms = {"failed-over": (0.2, 0.4), "master-frozen": (0.8, 1.2), "master-killed": (0.8, 1.2), "replica-killed": (0.3, 1.0)}
    renewing = ("failed-over", "master-frozen", "master-killed", "replica-killed")

    def start(self):
        self.ports = [Port() for _ in range(6)]
        numbers = [port.number for port in self.ports]
        self.servers, self.watchers, self.hit = dict.fromkeys(numbers[:3]), {}, None
        for number in self.servers:
            self.run(number, numbers[0])
        wait_until(PATIENCE_S, "both replicas are connected", lambda: self.online(numbers[0]) == 2)
        for number in numbers[3:]:
            path = f"{self.directory}/sentinel-{number}.conf"
            with open(path, "w", encoding="ascii") as file:
                file.write(f"bind 127.0.0.1\nport {number}\ndir {self.directory}\n"
                           f"sentinel monitor it 127.0.0.1 {numbers[0]} 2\nsentinel down-after-milliseconds it 700\n"
                           "sentinel failover-timeout it 4000\nsentinel parallel-syncs it 2\n")
            self.watchers[number] = start(["redis-server", path, "--sentinel"], self.log("sentinel"), out="log")
        wait_until(PATIENCE_S, "the Sentinels know each other and the replicas", self.watched)

    def run(self, number, master):
        role = ["--replicaof", "127.0.0.1", str(master)] if number != master else []
        self.servers[number] = start(
            ["redis-server", "--bind", "127.0.0.1", "--port", str(number), "--dir", self.directory, "--save", "",
             "--appendonly", "no", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
             "--repl-diskless-load", "swapdb", *role], self.log("redis"), out="log")
        wait_until(PATIENCE_S, "redis-server answers", lambda: self.ask(number, "PING"))

    @staticmethod
    def ask(number, *words):
        with contextlib.suppress(Trouble):
            return ask_program(["redis-cli", "-p", str(number), *words], 5)
        return ""

    def online(self, number):
        answer = self.ask(number, "INFO", "replication")
        return answer.count("state=online") if "role:master" in answer else 0

    def watched(self):
        for number in self.watchers:
            words = self.ask(number, "SENTINEL", "MASTER", "it").split("\n")
            known = dict(zip(words[::2], words[1::2]))
            if known.get("num-slaves") != "2" or known.get("num-other-sentinels") != "2":
                return False
        return True

    def master(self):
        for number in self.watchers:
            words = self.ask(number, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "it").split()
            if len(words) == 2:
                return int(words[1])
        raise Trouble("no Sentinel names a master")

    def stop(self):
        for process in (*self.watchers.values(), *self.servers.values()):
            end(process)
        for port in self.ports:
            port.close()

    def url(self, ports=None):
        watchers = ",".join(f"127.0.0.1:{number}" for number in self.watchers)
        return f"redis+sentinel://{watchers}/it?wait_replicas=1"

    def prepare(self, namespaces):
        for namespace in namespaces:
            add = [self.tenure, "target", "add", "begin", "--store", self.url() + "&fresh=1", "--namespace", namespace,
                   "--log-level", "error"]
            try_until(PATIENCE_S, "the namespace is there", lambda add=add: ask_program(add))
            self.command_surely("target", "rm", "begin", namespace=namespace)

    def whole(self):
        """All Sentinels agree on a master, and it has both replicas."""
        named = {self.ask(number, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "it") for number in self.watchers}
        return len(named) == 1 and self.online(self.master()) == 2

    def heal_all(self):
        wait_until(PATIENCE_S, "the master has both replicas", self.whole)

    def do_failed_over(self):
        self.hit = self.master()
        if "OK" not in self.ask(next(iter(self.watchers)), "SENTINEL", "FAILOVER", "it"):
            raise Trouble("the Sentinel refuses a failover")

    def undo_failed_over(self):
        """Another Sentinel may have put the promoted one back: then the former master goes on."""
        self.heal_all()

    def do_master_frozen(self):
        """When it goes on, it takes itself for the master until a Sentinel tells it otherwise."""
        self.hit = self.master()
        freeze(self.servers[self.hit].pid)

    def undo_master_frozen(self):
        send(self.servers[self.hit].pid, signal.SIGCONT)
        self.heal_all()

    def do_master_killed(self):
        self.hit = self.master()
        end(self.servers[self.hit])

    def undo_master_killed(self):
        wait_until(PATIENCE_S, "another one is the master", lambda: self.master() != self.hit)
        self.run(self.hit, self.master())
        self.heal_all()

    def do_replica_killed(self):
        master = self.master()
        self.hit = next(number for number in self.servers if number != master)
        end(self.servers[self.hit])

    def undo_replica_killed(self):
        self.run(self.hit, self.master())
        self.heal_all()


class Standbys(Store):
    """A primary and two standbys, of which one has to have a commit. A standby is promoted while the primary goes on with the
    other one; then that one follows the new primary, and the former primary is ended."""
    name = "postgres-standbys"
    ttl_ms = 5000
    loses_data = True
    recovers_ms = 4000
    slow_to_heal = True
    pause_s = 10.0
    harms = {"promoted": (0.3, 1.0), "primary-killed": (0.1, 0.3), "standby-killed": (0.2, 0.5)}
    forgetful = ("promoted", "primary-killed")
    renewing = ("standby-killed",)

    def start(self):
        self.prefix, user = unprivileged()
        self.ports = [Port() for _ in range(3)]
        self.nodes = dict.fromkeys(port.number for port in self.ports)
        self.place = tempfile.mkdtemp(prefix="tenure-faults-pg.")
        os.chmod(self.place, 0o755)
        if user:
            os.chown(self.place, user.pw_uid, user.pw_gid)
        self.primary, others, self.former = next(iter(self.nodes)), list(self.nodes)[1:], None
        self.tool("initdb", "-D", self.data(self.primary), "--no-sync", "--auth=trust", "-U", "tenure", "--encoding", "UTF8",
                  "--locale", "C")
        self.run(self.primary)
        for number in others:
            self.follow(number)

    def data(self, number):
        return f"{self.place}/{number}"

    def tool(self, name, *words):
        with open(self.log(name), "ab") as log:
            done = subprocess.run([*self.prefix, server_program(name), *words], check=False, stdout=log, stderr=log,
                                  cwd=self.place, timeout=2 * PATIENCE_S)
        if done.returncode != 0:
            raise Trouble(f"{name} failed; see {self.log(name)}")

    def run(self, number):
        names = ", ".join(f'"n{each}"' for each in self.nodes)
        settings = {"listen_addresses": "127.0.0.1", "fsync": "off", "synchronous_standby_names": f"ANY 1 ({names})",
                    "wal_receiver_status_interval": "1s", "max_wal_senders": "10", "shared_buffers": "16MB"}
        self.nodes[number] = start(
            [*self.prefix, server_program("postgres"), "-D", self.data(number), "-k", self.place, "-p", str(number),
             *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))], self.log("postgres"), out="log")
        wait_until(PATIENCE_S, "PostgreSQL answers", lambda: self.asked(number, "SELECT 1") == "1")

    def asked(self, number, statement):
        with contextlib.suppress(Trouble):
            return ask_program(["psql", "-h", self.place, "-p", str(number), "-U", "tenure", "-d", "postgres", "-qAtc", statement],
                               10).strip()
        return ""

    def follow(self, number):
        """A new copy of the primary, which follows it; it counts as a standby when it has caught up."""
        shutil.rmtree(self.data(number), ignore_errors=True)
        try_until(PATIENCE_S, "a base backup is taken", lambda: self.copy(number))
        with open(f"{self.data(number)}/postgresql.auto.conf", "a", encoding="ascii") as file:
            file.write(f"primary_conninfo = 'host=127.0.0.1 port={self.primary} user=tenure application_name=n{number}'\n")
        open(f"{self.data(number)}/standby.signal", "w", encoding="ascii").close()
        self.run(number)
        wait_until(PATIENCE_S, "the standby follows", lambda: self.asked(
            self.primary, f"SELECT state FROM pg_stat_replication WHERE application_name = 'n{number}'") == "streaming")

    def copy(self, number):
        shutil.rmtree(self.data(number), ignore_errors=True)
        self.tool("pg_basebackup", "-h", self.place, "-p", str(self.primary), "-U", "tenure", "-D", self.data(number), "-X",
                  "stream", "-c", "fast", "--no-sync")

    def end_node(self, number):
        process = self.nodes[number]
        send(process.pid, signal.SIGQUIT)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            end(process)

    def stop(self):
        for number, process in self.nodes.items():
            if process:
                self.end_node(number)
        for port in self.ports:
            port.close()
        shutil.rmtree(self.place, ignore_errors=True)

    def addresses(self):
        return [f"127.0.0.1:{number}" for number in self.nodes]

    def url(self, ports=None):
        hosts = ",".join(f"127.0.0.1:{number}" for number in ports or self.nodes)
        return f"postgres://tenure@{hosts}/postgres"

    def others(self):
        return [number for number in self.nodes if number != self.primary]

    def promote(self, number):
        self.asked(number, "SELECT pg_promote(false) WHERE pg_is_in_recovery()")
        wait_until(PATIENCE_S, "the standby is promoted", lambda: self.asked(number, "SELECT pg_is_in_recovery()") == "f")
        self.former, self.primary = self.primary, number

    def gather(self):
        """The other standby follows the new primary, and the former primary is made a standby again."""
        other = next(number for number in self.others() if number != self.former)
        self.end_node(other)
        self.follow(other)
        self.end_node(self.former)
        self.follow(self.former)

    def do_promoted(self):
        self.promote(self.others()[0])
    undo_promoted = gather

    def do_primary_killed(self):
        self.end_node(self.primary)
        self.promote(self.others()[-1])
    undo_primary_killed = gather

    def do_standby_killed(self):
        self.former = self.others()[0]
        self.end_node(self.former)

    def undo_standby_killed(self):
        self.follow(self.former)
