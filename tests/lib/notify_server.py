"""Stands in for systemd: binds a datagram socket and prints `PID MESSAGE` for each that comes. Called by tests/e2e/notify.sh.

notify_server.py NAME: NAME is a path, or @NAME in the abstract namespace. It ends when it is killed.
"""

import socket
import struct
import sys


def main():
    name = sys.argv[1]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    listener.bind("\0" + name[1:] if name.startswith("@") else name)
    print("0 listening", flush=True)
    while True:
        data, ancillary, _, _ = listener.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
        for level, kind, credentials in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                print(struct.unpack("3i", credentials)[0], data.decode(), flush=True)


main()
