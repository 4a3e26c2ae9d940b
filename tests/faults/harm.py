"""What is done to a host, and undone. A kind is a pair of functions of a host; how long it lasts is the schedule's to say.

A worker whose warden is stopped is left in peace: without its warden nobody ends what it has started, and
docs/GUARANTEES.md says so.
"""
import contextlib
import os
import signal
import subprocess

from processes import NO_STORE, PATIENCE_S, Trouble, end, freeze, send, takes, wait_until


class Kind:
    """`lasts` is how many TTLs at least and at most (None: until what it does is done); `misses` how many ms a target of
    the host may go without a poll because of it; `displaces`: it makes targets change hands."""
    def __init__(self, begin, finish, lasts, ttls=1.0, displaces=True, needs=None):
        self.begin, self.finish, self.lasts = begin, finish, lasts
        self.ttls, self.displaces, self.needs = ttls, displaces, needs


def must(done, what):
    if not done:
        raise Trouble(f"{what}: it was gone already")


def worker_of(host):
    worker = host.worker()
    must(worker, f"the worker of {host.name}")
    return worker


def ask(host, number):
    """A signal that the agent takes. An init system sends none before the program has begun, either."""
    wait_until(PATIENCE_S, f"the agent of {host.name} takes signals", lambda: takes(host.agent.pid, number) or not host.runs())
    return send(host.agent.pid, number)


def kill_worker(host):
    must(send(worker_of(host), signal.SIGKILL), f"the worker of {host.name}")


def kill_warden(host):
    host.wanted = False
    end(host.agent)


def kill_host(host):
    worker = worker_of(host)
    host.wanted = False
    if host.ledger:
        send(host.ledger.pid, signal.SIGKILL)
    must(send(host.agent.pid, signal.SIGKILL), f"the warden of {host.name}")
    send(worker, signal.SIGKILL)
    host.agent.wait()
    if host.ledger:
        host.ledger.wait()


def restart_agent(host):
    host.start_agent()


def stop_worker(host):
    """With its recorder: it must not believe in its leases when it wakes."""
    host.stopped = worker_of(host)
    must(freeze(host.stopped), f"the worker of {host.name}")
    if host.ledger:
        freeze(host.ledger.pid)


def continue_worker(host):
    send(host.stopped, signal.SIGCONT)
    if host.ledger:
        send(host.ledger.pid, signal.SIGCONT)


def stop_warden(host):
    must(freeze(host.agent.pid), f"the warden of {host.name}")


def continue_warden(host):
    send(host.agent.pid, signal.SIGCONT)


def send_group(host, number):
    """As the terminal does: to the warden, and to whatever is in its process group."""
    try:
        os.killpg(host.agent.pid, number)
    except ProcessLookupError as error:
        raise Trouble(f"the agent of {host.name}: it was gone already") from error


def press_ctrl_z(host):
    send_group(host, signal.SIGTSTP)


def stop_group(host):
    send_group(host, signal.SIGSTOP)


def continue_group(host):
    with contextlib.suppress(Trouble):
        send_group(host, signal.SIGCONT)


def hang_source(host):
    """Whoever opens a pipe waits until somebody writes. It has a second name, by which it is found again. An agent that
    has not read its targets yet would not start: a pipe is no file of targets."""
    if not host.has_begun():
        raise Trouble(f"the agent of {host.name} has not read its targets yet")
    pipe = host.path("pipe")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(pipe)
    os.mkfifo(pipe)
    os.chmod(pipe, 0o666)
    os.link(pipe, host.path("targets.new"))
    os.rename(host.path("targets.new"), host.path("targets"))
    host.source_hung = True
    must(ask(host, signal.SIGHUP), f"the agent of {host.name}")


def heal_source(host):
    host.heal_source()
    with contextlib.suppress(OSError), open(host.settings.target_file, "rb") as file:  # else nobody reads it
        pipe = os.open(host.path("pipe"), os.O_WRONLY | os.O_NONBLOCK)
        with os.fdopen(pipe, "wb") as out:
            out.write(file.read())
    ask(host, signal.SIGHUP)


def ask_to_stop(host):
    host.wanted = False
    must(ask(host, signal.SIGTERM), f"the agent of {host.name}")


def replace(host):
    try:
        code = host.agent.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as error:
        raise Trouble(f"{host.name} was asked to stop, and is still there after {PATIENCE_S} s") from error
    if code not in (0, NO_STORE):  # its worker may have been restarted, and found no store
        raise Trouble(f"{host.name} was asked to stop, and ended with {code}")
    host.start_agent()


def replace_with_slow_clock(host):
    host.slow_clock = 0.92
    ask_to_stop(host)
    replace(host)


def replace_with_true_clock(host):
    host.slow_clock = None
    ask_to_stop(host)
    replace(host)


def told(*commands):
    return lambda host: host.proxies.tell(*commands)


def delayed(host):
    host.proxies.tell(f"delay {host.settings.ttl_ms + 500}")


def jump_ahead(host):
    host.set_clock("+1h")


def jump_back(host):
    host.set_clock("-1h")


whole = told("clear")
whole_anew = told("clear", "cut")

KINDS = {
    "worker-killed": Kind(kill_worker, None, None),
    "warden-killed": Kind(kill_warden, restart_agent, (0.1, 1.2)),
    "host-killed": Kind(kill_host, lambda host: host.start(), (0.1, 1.2)),
    "worker-stopped": Kind(stop_worker, continue_worker, (1.2, 2.0)),
    "warden-stopped": Kind(stop_warden, continue_warden, (0.3, 1.5), ttls=0, displaces=False),
    "ctrl-z": Kind(press_ctrl_z, continue_group, (0.5, 1.5), ttls=0, displaces=False),
    "group-stopped": Kind(stop_group, continue_group, (0.5, 1.5), ttls=0, displaces=False),
    "source-hung": Kind(hang_source, heal_source, (1.2, 2.5), ttls=3.5, displaces=False, needs="file"),
    "replaced": Kind(ask_to_stop, replace, (0.3, 0.8), ttls=0.3),
    "cut": Kind(told("refuse", "cut"), whole, (1.2, 1.8), needs="proxies"),
    "half-open": Kind(told("half-open"), whole_anew, (1.2, 1.8), needs="proxies"),
    "requests-lost": Kind(told("drop up"), whole_anew, (1.2, 1.8), needs="proxies"),
    "replies-lost": Kind(told("drop down"), whole_anew, (1.2, 1.8), needs="proxies"),
    "slower-than-ttl": Kind(delayed, whole, (1.2, 1.8), needs="proxies"),
    "held-back": Kind(told("hold"), whole, (1.2, 1.8), needs="proxies"),
    "replies-swallowed": Kind(told("swallow 3 cut"), whole, (0.3, 0.5), displaces=False, needs="proxies"),
    "clock-jumped-ahead": Kind(jump_ahead, lambda host: host.set_clock("+0"), (0.8, 1.5), ttls=0, displaces=False,
                               needs="clock"),
    "clock-jumped-back": Kind(jump_back, lambda host: host.set_clock("+0"), (0.8, 1.5), ttls=0, displaces=False,
                              needs="clock"),
    "clock-slow": Kind(replace_with_slow_clock, replace_with_true_clock, (2.0, 3.0), ttls=0.5, needs="rate"),
}
