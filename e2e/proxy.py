"""A reverse proxy that adds a base path, as docs/console.md describes one: it passes on the Host header, and buffers nothing."""

import http.client
import http.server
import threading

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"}


class Proxy(http.server.ThreadingHTTPServer):
    """Serves what is below base from the address (host, port) in upstream. It cuts the connections of requests for whose
    path cut returns True."""

    daemon_threads = True

    def __init__(self, base):
        super().__init__(("127.0.0.1", 0), Handler)
        self.base, self.upstream, self.cut = base, None, lambda path: False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Ignores browsers that close a connection."""


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def forward(self):
        if not self.path.startswith(self.server.base):
            self.send_error(404)
            return
        if self.server.cut(self.path):
            self.close_connection = True
            return
        length = int(self.headers.get("Content-Length") or 0)
        upstream = http.client.HTTPConnection(*self.server.upstream)
        try:
            upstream.putrequest(self.command, "/" + self.path[len(self.server.base):], skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    upstream.putheader(name, value)
            upstream.endheaders()
            while length > 0:
                part = self.rfile.read1(min(length, 1 << 20))
                if not part:
                    return  # the browser has gone
                length -= len(part)
                upstream.send(part)
            response = upstream.getresponse()
            self.send_response_only(response.status, response.reason)
            for name, value in response.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while part := response.read1(1 << 16):
                self.wfile.write(part)
        finally:
            upstream.close()
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward
