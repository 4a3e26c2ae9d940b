#!/usr/bin/env python3
"""Runs a command as a shell does in the foreground of a terminal of its own, and stops it as a user may.

  terminal_stop.py PIDFILE key|group COMMAND...

The command is the leader of the terminal's foreground group; its process id is written into PIDFILE. Each line of
standard input does something: "stop" types ^Z there (key), or sends SIGSTOP to the group; "continue" sends SIGCONT to the
group, as `fg` does; "end" sends SIGTERM to the command. Prints "done" after each. Ends with the command.
"""
import os
import pty
import signal
import sys
import threading


def run_in_foreground(command):
    """As a shell with job control: a group of its own, which has the terminal."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    os.waitpid(child, 0)
    os._exit(0)


def drain(terminal):
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # nobody has it open any more
        pass


def foreground(terminal, shell):
    while True:
        group = os.tcgetpgrp(terminal)
        if group not in (0, shell):
            return group


def main():
    pid_file, how, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    shell, terminal = pty.fork()
    if shell == 0:
        run_in_foreground(command)
    group = foreground(terminal, shell)
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    with open(pid_file + ".new", "w", encoding="utf-8") as file:
        file.write(str(group))
    os.rename(pid_file + ".new", pid_file)
    for line in sys.stdin:
        word = line.strip()
        if word == "stop" and how == "key":
            os.write(terminal, b"\x1a")
        elif word == "stop":
            os.killpg(group, signal.SIGSTOP)
        elif word == "continue":
            os.killpg(group, signal.SIGCONT)
        elif word == "end":
            os.kill(group, signal.SIGTERM)
        print("done", flush=True)
    os.waitpid(shell, 0)


main()
