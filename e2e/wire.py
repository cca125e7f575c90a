"""A TCP proxy that cuts connections after any number of bytes, and records which parts a client has sent."""

import random
import re
import socket
import threading

PART = re.compile(rb"PUT /\S+[?&]partNumber=(\d+)\S* HTTP/1\.1\r\n")
PIECE = 64 << 10


class Wire:
    """Forwards connections to a server. Each connection is cut after a random number of bytes while cuts are left."""

    def __init__(self, upstream, seed=0):
        self.upstream, self.random = upstream, random.Random(seed)
        self.lock = threading.Lock()
        self.cuts_left, self.cuts, self.mean = 0, 0, 0
        self.sent, self.received, self.parts = 0, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, count, mean):
        """Cuts the next connections, count of them, after mean bytes on average."""
        with self.lock:
            self.cuts_left, self.mean = count, mean

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.upstream)
            except OSError:
                client.close()  # the server is being restarted
                continue
            with self.lock:
                limit = None
                if self.cuts_left > 0:
                    self.cuts_left -= 1
                    limit = [int(self.random.expovariate(1 / self.mean)) + 1]
            for one, other, up in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._copy, args=(one, other, up, limit), daemon=True).start()

    def _copy(self, source, target, up, limit):
        tail = b""
        try:
            while piece := source.recv(PIECE):
                ends = False
                with self.lock:
                    if limit is not None:
                        ends = 0 < limit[0] <= len(piece)
                        piece = piece[:max(limit[0], 0)]
                        limit[0] -= len(piece)
                        self.cuts += ends
                    if up:
                        self.sent += len(piece)
                        text = tail + piece
                        self.parts += [int(m.group(1)) for m in PART.finditer(text)]
                        tail = text[max(len(text) - 2048, 0):]
                        last = list(PART.finditer(tail))
                        tail = tail[last[-1].end():] if last else tail
                    else:
                        self.received += len(piece)
                target.sendall(piece)
                if ends:
                    break
        except OSError:
            pass
        with self.lock:
            if limit is not None and limit[0] > 0:  # the connection ended before its cut
                self.cuts_left, limit[0] = self.cuts_left + 1, 0
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()
