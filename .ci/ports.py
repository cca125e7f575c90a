#!/usr/bin/env python3
"""Run a command, and check that it never connects to the default ports of a server, 9000 and 9001, where a user's own
server may listen.

usage: ports.py COMMAND ARGUMENTS...

This program listens on both ports while the command runs, so a test that listens on one of them fails too. The exit
status is that of the command, or 1 if the command succeeded but something connected to one of the ports.
"""

import socket
import subprocess
import sys
import threading

connections = {}


def hold(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as e:
        print(f"{sys.argv[0]}: port {port} is in use ({e}), so connections to it are not counted", file=sys.stderr)
        return
    listener.listen()
    connections[port] = 0

    def count():
        while True:
            connection, _ = listener.accept()
            connections[port] += 1
            connection.close()

    threading.Thread(target=count, daemon=True).start()


for port in (9000, 9001):
    hold(port)
status = subprocess.run(sys.argv[1:]).returncode
print("connections to the default ports:", ", ".join(f"{n} to {port}" for port, n in connections.items()) or "not counted", file=sys.stderr)
if any(connections.values()):
    print(f"{sys.argv[0]}: a test connected to a server that it did not start", file=sys.stderr)
    status = status or 1
sys.exit(status)
