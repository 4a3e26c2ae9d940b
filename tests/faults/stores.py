"""The stores that a run can use, as private servers, and what can be done to them. This file has what all have in common,
SQLite and Redis; the others are in stores_sql.py and stores_etcd.py.

A fault NAME of a store is do_NAME(), and undo_NAME() where it lasts; `harms` says for how many TTLs (None: it is over at
once, or does itself what comes after).
"""
import contextlib
import os
import shutil
import signal
import sqlite3

from processes import PATIENCE_S, Port, Trouble, ask_program, end, freeze, send, start, try_until, wait_until


class Store:
    name = ""
    ttl_ms = 1500
    loses_data = False      # a fault can make it forget: the targets are in a file then
    shares_boot_clock = False
    blocked_by_stopped = False  # who is stopped may have its lock
    recovers_ms = 0         # how much longer than a TTL newcomers wait when it forgot
    slow_to_heal = False    # undoing a fault takes seconds: the other faults go on meanwhile
    takeovers = 1.0         # how many of the faults that displace a holder can be seen as a change of hands
    may_lag_ms = 0          # how much later than its TTL it may end a lease
    pause_s = 0.0           # between two of its faults, beside what the schedule leaves
    harms = {}              # its faults, and how many TTLs they last, at least and at most
    forgetful = ()          # those of them that lose data
    renewing = ()           # those after which newcomers wait all the same

    def __init__(self, directory, tenure):
        self.directory, self.tenure = directory, tenure
        os.makedirs(directory, exist_ok=True)

    def start(self):
        raise NotImplementedError

    def stop(self):
        raise NotImplementedError

    def addresses(self):
        """Where its servers listen, for the proxies in front of them. None: there is nothing to stand in front of."""
        return []

    def url(self, ports=None):
        """Directly, or through proxies at these ports."""
        raise NotImplementedError

    def prepare(self, namespaces):
        """Whatever the first use of a namespace has to have done before: a schema is made by one, in peace."""
        for namespace in namespaces:
            self.command_surely("target", "add", "made", namespace=namespace)
            self.command_surely("target", "rm", "made", namespace=namespace)

    def harm(self, name):
        getattr(self, "do_" + name.replace("-", "_"))()

    def heal(self, name):
        getattr(self, "undo_" + name.replace("-", "_"))()

    def command(self, *words, timeout=10, namespace="poll"):
        return ask_program([self.tenure, *words, "--store", self.url(), "--namespace", namespace, "--log-level", "error"],
                           timeout)

    def command_surely(self, *words, namespace="poll"):
        """For what has to be done where no fault is under way: a busy machine may make the store late for it."""
        return try_until(PATIENCE_S, f"tenure {' '.join(words)} succeeds", lambda: self.command(*words, namespace=namespace))

    def log(self, name):
        return f"{self.directory}/{name}.log"


class Sqlite(Store):
    name = "sqlite"
    shares_boot_clock = True
    blocked_by_stopped = True
    harms = {"locked": (1.1, 2.0), "away": (0.5, 1.8), "locked-briefly": (0.2, 0.3)}

    def start(self):
        os.makedirs(f"{self.directory}/db")
        self.locker = None

    def stop(self):
        self.undo_locked()

    def url(self, ports=None):
        return f"sqlite:{self.directory}/db/leases.db"

    def do_locked(self):
        """Without waiting for long: who has the lock may be stopped, and is continued by the same hand."""
        # It is closed by another thread: what is undone does not hold up the other faults.
        locker = sqlite3.connect(f"{self.directory}/db/leases.db", isolation_level=None, timeout=0.2, check_same_thread=False)
        try:
            locker.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            locker.close()
            raise Trouble(f"the file cannot be locked: {error}") from error
        self.locker = locker

    def undo_locked(self):
        if self.locker:
            self.locker.close()
            self.locker = None

    def do_locked_briefly(self):
        self.do_locked()
    undo_locked_briefly = undo_locked

    def do_away(self):
        os.rename(f"{self.directory}/db", f"{self.directory}/away")

    def undo_away(self):
        os.rename(f"{self.directory}/away", f"{self.directory}/db")


class RestoredSqlite(Sqlite):
    """Comes back from a backup: the file alone, beside the side file that remembers how far it had come; or the whole directory,
    with a side file that knows nothing of what came after. Then newcomers wait for 30 s."""
    name = "sqlite-restored"
    loses_data = True
    harms = {"file-restored": (0.3, 1.5), "directory-restored": (0.3, 1.5)}
    forgetful = ("file-restored", "directory-restored")
    recovers_ms = 30000
    takeovers = 0.3
    pause_s = 12.0

    def start(self):
        super().start()
        self.count = 0

    def keep(self):
        """A backup as SQLite makes it, while others write."""
        os.makedirs(f"{self.directory}/kept")
        try:
            source = sqlite3.connect(f"{self.directory}/db/leases.db", timeout=5)
            copy = sqlite3.connect(f"{self.directory}/kept/leases.db")
            source.backup(copy)
            copy.close()
            source.close()
            shutil.copyfile(f"{self.directory}/db/leases.db-lock", f"{self.directory}/kept/leases.db-lock")
        except (sqlite3.Error, OSError) as error:
            shutil.rmtree(f"{self.directory}/kept")
            raise Trouble(f"no backup: {error}") from error

    def do_file_restored(self):
        self.keep()

    def undo_file_restored(self):
        """As an operator does who knows of the files beside it."""
        for ending in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.directory}/db/leases.db{ending}")
        os.rename(f"{self.directory}/kept/leases.db", f"{self.directory}/db/leases.db")
        shutil.rmtree(f"{self.directory}/kept")

    def do_directory_restored(self):
        self.keep()

    def undo_directory_restored(self):
        self.count += 1
        os.rename(f"{self.directory}/db", f"{self.directory}/gone-{self.count}")
        os.rename(f"{self.directory}/kept", f"{self.directory}/db")


class Redis(Store):
    """Keeps all that it is told on disk at once, so that what it forgets is what a fault made it forget."""
    name = "redis"
    loses_data = True
    harms = {"killed": (0.3, 1.8), "restarted": None, "restarted-empty": None, "restarted-older": (0.3, 1.5),
             "flushed": None, "swapped": None, "scripts-flushed": None, "frozen": (0.5, 1.8), "clients-killed": None}
    forgetful = ("restarted-empty", "restarted-older", "flushed", "swapped")
    renewing = ("killed", "restarted")  # its epoch begins anew, though it lost nothing

    def start(self):
        self.process, self.kept = None, False
        self.reserved = Port()
        self.port = self.reserved.number
        self.run()

    def run(self):
        os.makedirs(f"{self.directory}/data", exist_ok=True)
        self.process = start(["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket",
                              f"{self.directory}/redis.sock", "--dir", f"{self.directory}/data", "--save", "",
                              "--appendonly", "yes", "--appendfsync", "always"], self.log("redis"), out="log")
        wait_until(PATIENCE_S, "redis-server answers", lambda: self.process.poll() is not None or self.answers())
        if self.process.poll() is not None:
            raise Trouble(f"redis-server does not start; see {self.log('redis')}")

    def answers(self):
        with contextlib.suppress(Trouble):
            return f"process_id:{self.process.pid}\n" in self.cli("INFO", "server")
        return False

    def cli(self, *words):
        return ask_program(["redis-cli", "-s", f"{self.directory}/redis.sock", *words])

    def stop(self):
        end(self.process)
        self.reserved.close()

    def addresses(self):
        return [f"127.0.0.1:{self.port}"]

    def url(self, ports=None):
        return f"redis://127.0.0.1:{ports[0] if ports else self.port}"

    def prepare(self, namespaces):
        """A first use would wait for a TTL. What is kept here is the older copy that a restart may come back with."""
        for namespace in namespaces:
            add = [self.tenure, "target", "add", "begin", "--store", self.url() + ("&" if "?" in self.url() else "?") + "fresh=1", "--namespace", namespace,
                   "--log-level", "error"]
            try_until(PATIENCE_S, "the namespace is there", lambda add=add: ask_program(add))
            self.command_surely("target", "rm", "begin", namespace=namespace)

    def keep(self):
        self.cli("SAVE")
        shutil.rmtree(f"{self.directory}/kept", ignore_errors=True)
        shutil.copytree(f"{self.directory}/data", f"{self.directory}/kept")
        self.kept = True

    def again(self, data=None):
        end(self.process)
        if data is not None:
            shutil.rmtree(f"{self.directory}/data")
            if data:
                shutil.copytree(data, f"{self.directory}/data")
        self.run()

    def do_killed(self):
        end(self.process)

    def undo_killed(self):
        self.again()

    def do_restarted(self):
        self.again()

    def do_restarted_empty(self):
        self.again("")

    def do_restarted_older(self):
        """A copy is kept, and some time later it is all that is left."""
        self.keep()

    def undo_restarted_older(self):
        self.again(f"{self.directory}/kept")

    def do_flushed(self):
        self.cli("FLUSHALL")

    def do_swapped(self):
        """The other database is empty, or has what was there before the last exchange."""
        self.cli("SWAPDB", "0", "1")

    def do_scripts_flushed(self):
        self.cli("SCRIPT", "FLUSH")

    def do_clients_killed(self):
        self.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def do_frozen(self):
        freeze(self.process.pid)

    def undo_frozen(self):
        send(self.process.pid, signal.SIGCONT)

class SessionRedis(Redis):
    """The leases of an instance hang on its session."""
    name = "redis-session"

    def url(self, ports=None):
        return super().url(ports) + "?leases=session"
