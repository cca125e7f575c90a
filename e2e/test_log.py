"""A log that cannot be written: requests and the shutdown do not wait for it, and the server says how much is missing."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import BINARY, HANG_SECONDS

LINES = 15_000  # with the key, more than the log keeps in memory
KEY = "k" * 1000
ROOT = {"ORCAS_ROOT_ACCESS_KEY": "e2e-access-key", "ORCAS_ROOT_SECRET_KEY": "e2e-secret-key-0123456789"}


def environ():
    return {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | ROOT | {"ORCAS_MIN_FREE": "0"}


class Quiet:
    """A server that logs requests to a file descriptor."""

    def __init__(self, data, log):
        self.process = subprocess.Popen(
            [str(BINARY), "server", "--data", str(data), "--address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0"],
            env=environ() | {"ORCAS_LOG": "requests"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        banner = ""
        for line in self.process.stdout:
            banner += line
            if re.match(r"\s*credentials\s", line):
                break
        self.endpoint = re.search(r"endpoint\s+http://(\S+)", banner).group(1)
        self.admin = re.search(r"admin\s+http://(\S+)", banner).group(1)

    def request(self, n):
        """Sends n requests, each of which has a line of more than 1,000 bytes."""
        connection = http.client.HTTPConnection(self.endpoint, timeout=HANG_SECONDS)
        for _ in range(n):
            connection.request("GET", "/bucket/" + KEY)
            response = connection.getresponse()
            assert response.status == 404 and response.read()
        connection.close()

    def dropped(self):
        connection = http.client.HTTPConnection(self.admin, timeout=HANG_SECONDS)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(float(re.search(r"(?m)^orcas_log_dropped_total (\S+)$", text).group(1)))

    def status(self):
        done = subprocess.run([str(BINARY), "admin", "status", "--json", "--admin-address", self.admin], env=environ(), capture_output=True,
                              timeout=HANG_SECONDS, check=True)
        return json.loads(done.stdout)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(HANG_SECONDS) == 0
        self.process.stdout.close()


@pytest.fixture
def pipe():
    """A pipe that nobody reads yet."""
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass  # the test has closed it


def test_log_that_nobody_reads(tmp_path, pipe):
    ours, theirs = pipe
    server = Quiet(tmp_path / "data", theirs)
    server.request(LINES)
    assert 0 < server.dropped() < LINES
    assert [w for w in server.status()["warnings"] if "lines lost since the start" in w["problem"]]
    server.stop()


def test_log_that_is_read_late(tmp_path, pipe):
    """The log is complete except for the lines that it reports as lost, and its first and last lines are there."""
    ours, theirs = pipe
    server = Quiet(tmp_path / "data", theirs)
    os.close(theirs)
    server.request(LINES)
    dropped = server.dropped()
    assert 0 < dropped < LINES
    log = []
    reader = threading.Thread(target=lambda: log.extend(os.fdopen(ours, closefd=False)), daemon=True)
    reader.start()
    deadline = time.monotonic() + HANG_SECONDS
    while not any("lines of this log were lost" in line for line in log):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    server.request(10)
    server.stop()
    reader.join()
    lines = [json.loads(line) for line in log]
    requests = [i for i, line in enumerate(lines) if line["msg"] == "request" and line["key"] == KEY]
    notes = [line for line in lines if "lost" in line]
    total = notes[-1]["total"]
    assert sum(n["lost"] for n in notes) == total >= dropped
    assert LINES + 10 - total <= len(requests) < LINES
    assert lines.index(notes[0]) > requests[0] and lines.index(notes[-1]) < requests[-1]
    assert "store open" in [line["msg"] for line in lines[:requests[0]]]
    assert lines[-1]["msg"] == "stopped"


def check_lost(server, cause):
    """The server serves requests, and counts their lines as lost."""
    server.request(1000)
    deadline = time.monotonic() + HANG_SECONDS
    while server.dropped() < 1000:  # they are written once a second
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [w for w in server.status()["warnings"] if cause in w["problem"]]
    server.stop()


def test_log_on_a_full_drive(tmp_path):
    with open("/dev/full", "w") as log:
        server = Quiet(tmp_path / "data", log)
    check_lost(server, "no space left on device")


def test_log_whose_reader_has_ended(tmp_path, pipe):
    server = Quiet(tmp_path / "data", pipe[1])
    os.close(pipe[0])
    check_lost(server, "broken pipe")
