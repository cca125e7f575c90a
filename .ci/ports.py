#!/usr/bin/env python3
"""Run a command while nothing may connect to the default ports of a server, 9000 and 9001: a user's own server may listen there.

usage: ports.py COMMAND ARGUMENTS...

Both ports are held meanwhile, so a test that listens on one of them fails as well. The exit status is the command's, or 1 if something
connected.
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
        print(f"{sys.argv[0]}: port {port} is in use ({e}): connections to it are not counted", file=sys.stderr)
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
print("connections to the default ports of a server:", ", ".join(f"{n} to {port}" for port, n in connections.items()) or "not counted", file=sys.stderr)
if any(connections.values()):
    print(f"{sys.argv[0]}: a test talks to a server that it has not started", file=sys.stderr)
    status = status or 1
sys.exit(status)
