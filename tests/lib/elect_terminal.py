#!/usr/bin/env python3
"""Runs a command on a terminal of its own, and does to it what a user does there.

  elect_terminal.py LOG hangup|interrupt|interrupt-twice COMMAND...

The command is the session's leader, as by `ssh -t`. When it has printed a line with "ready", the terminal is closed, or
^C is typed, which the terminal sends to all that run there. What it printed goes to LOG. Prints how it ended (its exit
code, or minus the number of the signal) and after how many ms.
"""
import os
import pty
import select
import sys
import time

LIMIT_S = 120


def read_until(terminal, log, text, end):
    seen = b""
    while text not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError: # nobody has it open any more
                break
    log.write(seen)
    log.flush()
    return text in seen


def main():
    how, command = sys.argv[2], sys.argv[3:]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    end = time.monotonic() + LIMIT_S
    with open(sys.argv[1], "wb") as log:
        if not read_until(terminal, log, b"ready", end):
            raise SystemExit("it was never ready")
        time.sleep(0.1)
        began = time.monotonic()
        if how == "hangup":
            os.close(terminal)
        else:
            os.write(terminal, b"\x03")
            if how == "interrupt-twice":
                read_until(terminal, log, b"first", end)
                time.sleep(0.5) # or the two may become one
                os.write(terminal, b"\x03")
            read_until(terminal, log, b"\0never", time.monotonic() + 3)
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                print(code, round((time.monotonic() - began) * 1000))
                return
            time.sleep(0.01)
    raise SystemExit("it has not ended")


main()
