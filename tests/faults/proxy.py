"""The fault proxies of one host: one for each address of the store. What is told to them is told to all."""
import os
import socket
import sys

from processes import PATIENCE_S, Trouble, end, start, wait_until

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "fault_proxy.py")


class Proxies:
    def __init__(self, directory, name, addresses):
        self.controls, self.ports, self.processes = [], [], []
        for number, address in enumerate(addresses):
            place = f"{directory}/{name}{number}"
            self.controls.append(f"{place}.control")
            self.processes.append(start(
                [sys.executable, PROGRAM, "--listen", "127.0.0.1:0", "--to", address, "--control",
                 f"unix:{place}.control", "--port-file", f"{place}.port"], f"{place}.log"))
        for number in range(len(addresses)):
            path = f"{directory}/{name}{number}.port"
            wait_until(PATIENCE_S, f"a proxy listens ({path})", lambda path=path: os.path.exists(path))
            with open(path, encoding="ascii") as file:
                self.ports.append(int(file.read()))

    def tell(self, *commands):
        for control in self.controls:
            for command in commands:
                self.tell_one(control, command)

    @staticmethod
    def tell_one(control, command):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(control)
            sock.sendall(command.encode() + b"\n")
            answer = sock.makefile("rb").readline()
        if not answer.startswith(b"ok"):
            raise Trouble(f"the proxy does not {command}: {answer!r}")

    def end(self):
        for process in self.processes:
            end(process)
