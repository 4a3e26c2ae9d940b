"""PostgreSQL, and the manager over REST in front of one. See stores.py."""
import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

from processes import (PATIENCE_S, Port, Trouble, ask_program, children_of, end, freeze, send, start, try_until,
                       wait_until)
from stores import Store


def server_program(name):
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else name


def unprivileged():
    """PostgreSQL refuses to run as root: the words before a command that make it somebody else's, and who that is."""
    if os.getuid() != 0:
        return [], None
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
            return ["setpriv", "--reuid", name, "--regid", str(user.pw_gid), "--clear-groups", "--pdeathsig", "KILL"], user
        except KeyError:
            pass
    raise Trouble("there is nobody but root here")


class Postgres(Store):
    name = "postgres"
    ttl_ms = 2000
    harms = {"restarted": None, "killed": (0.3, 1.5), "backends-terminated": None, "rows-locked": (1.1, 1.8)}

    def start(self):
        prefix, user = unprivileged()
        self.prefix, self.process, self.locker = prefix, None, None
        self.reserved = Port()
        self.port = self.reserved.number
        self.place = tempfile.mkdtemp(prefix="tenure-faults-pg.")  # its own user must get there
        os.chmod(self.place, 0o755)
        if user:
            os.chown(self.place, user.pw_uid, user.pw_gid)
        with open(self.log("initdb"), "wb") as log:
            subprocess.run([*prefix, server_program("initdb"), "-D", f"{self.place}/data", "--no-sync", "--auth=trust",
                            "-U", "tenure", "--encoding", "UTF8", "--locale", "C"], check=True, stdout=log, stderr=log,
                           cwd=self.place, timeout=2 * PATIENCE_S)
        self.run()

    def run(self):
        """It may find what is left of its former self still there: then again."""
        try_until(PATIENCE_S, f"PostgreSQL starts; see {self.log('postgres')}", self.run_once)

    def run_once(self):
        self.process = start([*self.prefix, server_program("postgres"), "-D", f"{self.place}/data", "-k", self.place, "-p",
                              str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
                             self.log("postgres"), out="log")
        wait_until(PATIENCE_S, "PostgreSQL answers", lambda: self.process.poll() is not None or self.answers())
        if self.process.poll() is not None:
            raise Trouble(f"PostgreSQL ended with {self.process.returncode}")

    def psql(self, statement):
        return ["psql", "-h", self.place, "-p", str(self.port), "-U", "tenure", "-d", "postgres", "-qAt", "-v",
                "ON_ERROR_STOP=1", "-c", statement]

    def answers(self):
        with contextlib.suppress(Trouble):
            self.query("SELECT 1")
            return True
        return False

    def query(self, statement):
        return ask_program(self.psql(statement), 20)

    def stop(self):
        end(self.locker)
        if self.process:
            self.crash()
        self.reserved.close()
        shutil.rmtree(self.place, ignore_errors=True)

    def addresses(self):
        return [f"127.0.0.1:{self.port}"]

    def url(self, ports=None):
        return f"postgres://tenure@127.0.0.1:{ports[0] if ports else self.port}/postgres"

    def crash(self):
        """It ends at once; on a busy machine it has been seen not to."""
        send(self.process.pid, signal.SIGQUIT)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            for child in children_of(self.process.pid):
                send(child, signal.SIGKILL)
            end(self.process)

    def do_restarted(self):
        self.crash()
        self.run()

    def do_killed(self):
        self.crash()

    def undo_killed(self):
        self.run()

    def do_backends_terminated(self):
        self.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                   "AND backend_type = 'client backend'")

    def do_rows_locked(self):
        self.locker = start(self.psql("BEGIN; SELECT count(*) FROM (SELECT 1 FROM tenure.record FOR UPDATE) AS rows; "
                                      "SELECT pg_sleep(600)"), self.log("locker"))

    def undo_rows_locked(self):
        """A backend that sleeps does not notice that its client has gone."""
        if self.locker:
            self.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' "
                       "AND pid <> pg_backend_pid()")
            end(self.locker)
            self.locker = None


class Manager(Store):
    """`tenure serve` over a PostgreSQL of its own."""
    name = "http"
    ttl_ms = 2400
    harms = {"killed": (0.3, 1.8), "frozen": (0.5, 1.8), "restarted": None, "store-restarted": None,
             "store-rows-locked": (1.1, 1.8)}

    def start(self):
        self.process = None
        self.reserved = Port()
        self.port = self.reserved.number
        self.behind = Postgres(self.directory + "/behind", self.tenure)
        self.behind.start()
        self.run()

    def run(self):
        out = f"{self.directory}/serve.out"
        with open(out, "wb") as file:
            self.process = start([self.tenure, "serve", "--store", self.behind.url(), "--listen",
                                  f"127.0.0.1:{self.port}", "--log-level", "warn"], self.log("serve"), out=file)
        wait_until(PATIENCE_S, "the manager listens", lambda: os.path.getsize(out) > 0 or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise Trouble(f"the manager ended with {self.process.returncode}; see {self.log('serve')}")

    def stop(self):
        end(self.process)
        self.reserved.close()
        self.behind.stop()

    def addresses(self):
        return [f"127.0.0.1:{self.port}"]

    def url(self, ports=None):
        return f"http://127.0.0.1:{ports[0] if ports else self.port}"

    def do_killed(self):
        end(self.process)

    def undo_killed(self):
        self.run()

    def do_restarted(self):
        end(self.process, signal.SIGTERM)
        self.run()

    def do_frozen(self):
        freeze(self.process.pid)

    def undo_frozen(self):
        send(self.process.pid, signal.SIGCONT)

    def do_store_restarted(self):
        self.behind.do_restarted()

    def do_store_rows_locked(self):
        self.behind.do_rows_locked()

    def undo_store_rows_locked(self):
        self.behind.undo_rows_locked()
