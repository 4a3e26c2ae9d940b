#!/usr/bin/python3
"""Stops the worker of an agent with thousands of polls: its warden ends them. For the rows of `./dev bench endings`.

    endings.py TENURE DIRECTORY

Prints a line for each form of isolation and each number of polls: FORM POLLS GRACE_MS MS CPU_MS. MS is the time from the
start of the grace to the last process gone, CPU_MS the processor time of warden and worker; both are -1 where the form
cannot be had. tests/lib/polls_watch.py looks at the processes. Exits with 1 if some are left.
"""
import json
import os
import subprocess
import sys
import time

WATCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib/polls_watch.py")
NOBODY = "65534"
START_S = 10
FORMS = {  # as the agent's log has it: what it is started under, and its option
    "none": ([], "off"),
    "pid-namespace": ([], "auto"),
    "cgroup": (["setpriv", "--bounding-set=-sys_admin"], "auto"),
    "user-namespace": (["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"], "auto"),
}


def start(tenure, place, form, polls, ttl_ms):
    """An agent that took this form, or None."""
    prefix, option = FORMS[form]
    with open(f"{place}/targets", "w", encoding="utf-8") as file:
        file.writelines(f"target-{i}\n" for i in range(polls))
    with open(f"{place}/log", "wb") as log:
        agent = subprocess.Popen(prefix + [
            tenure, "agent", "--store", f"sqlite:{place}/store.db", "--ttl", f"{ttl_ms}ms", "--targets",
            f"file:{place}/targets", "--every", "1000s", "--timeout", "1000s", "--poll", "exec:exec sleep 1000",
            "--pid-namespace", option], stderr=log)
    end = time.monotonic() + START_S
    text = ""
    while "event=isolation " not in text and time.monotonic() < end:
        time.sleep(0.05)
        with open(f"{place}/log", encoding="utf-8") as log:
            text = log.read()
    return agent, f"isolation={form}" in text


def watch(agent, place, polls, ttl_ms):
    with open(f"/proc/{agent.pid}/task/{agent.pid}/children", encoding="utf-8") as file:
        worker = file.read().strip()
    said = subprocess.run([sys.executable, WATCH, worker, str(polls), f"{place}/store.db", "stop", "alone"],
                          stdout=subprocess.PIPE, check=False).stdout
    found = json.loads(said)
    if found["left"]:
        sys.exit(1)
    return ttl_ms / 8 + ttl_ms / 10 - found["before_end_ms"], found["cpu_ms"]


def main():
    tenure, directory = sys.argv[1:]
    os.chmod(directory, 0o755)
    for polls, ttl_ms in (1000, 3000), (4096, 30000):
        for form in FORMS:
            place = f"{directory}/{form}-{polls}"
            os.mkdir(place)
            os.chmod(place, 0o777)
            agent, taken = start(tenure, place, form, polls, ttl_ms)
            try:
                took = watch(agent, place, polls, ttl_ms) if taken else (-1, -1)
            finally:
                agent.kill()
                agent.wait()
            print(form, polls, ttl_ms / 10, *took, flush=True)


main()
