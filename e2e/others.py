"""S3 servers of other makes, started for a test: moto, versitygw, and Ceph's gateway."""

import contextlib
import os
import socket
import subprocess
import time
import urllib.request

import pytest

from conftest import HANG_SECONDS
from program import HERE, INSTALLED

ACCESS, SECRET = "other-access-key", "other-secret-key-0123456789"


class Other:
    """A running server: its name, endpoint and credentials."""

    access, secret = ACCESS, SECRET

    def __init__(self, name, endpoint):
        self.name, self.endpoint = name, endpoint


def free_port():
    """Returns a port that nobody uses now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(url):
    """Reports whether a server sends any HTTP response."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def running(command, directory, endpoint, **more):
    """Runs a server as a process until the block ends, and waits first until it answers."""
    with open(directory / "output", "wb") as output:
        process = subprocess.Popen(list(map(str, command)), cwd=directory, stdin=subprocess.PIPE, stdout=output, stderr=output, **more)
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not answers(endpoint):
            assert process.poll() is None and time.monotonic() < deadline, (directory / "output").read_text()
            time.sleep(0.05)
        yield
    finally:
        process.stdin.close()  # ends radosgw.sh, which then ends its children
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.terminate()
        process.wait(HANG_SECONDS)


@contextlib.contextmanager
def moto(directory):
    """moto, which keeps everything in memory and accepts any credentials."""
    endpoint = f"http://127.0.0.1:{(port := free_port())}"
    with running([INSTALLED / "venv/bin/moto_server", "-H", "127.0.0.1", "-p", port], directory, endpoint):
        yield Other("moto", endpoint)


@contextlib.contextmanager
def versitygw(directory):
    """versitygw with its POSIX backend."""
    (directory / "data").mkdir()
    endpoint = f"http://127.0.0.1:{(port := free_port())}"
    command = [INSTALLED / "bin/versitygw", "--port", f"127.0.0.1:{port}", "posix", "--sidecar", directory / "sidecar", directory / "data"]
    (directory / "sidecar").mkdir()
    with running(command, directory, endpoint, env=os.environ | {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}):
        yield Other("versitygw", endpoint)


@contextlib.contextmanager
def radosgw(directory):
    """Ceph's gateway, over a cluster in memory."""
    endpoint = f"http://127.0.0.1:{(port := free_port())}"
    with running([HERE / "radosgw.sh", directory / "cluster", free_port(), port, ACCESS, SECRET], directory, endpoint):
        yield Other("radosgw", endpoint)


@pytest.fixture(scope="module", params=[moto, versitygw, radosgw], ids=lambda f: f.__name__)
def other(request, tmp_path_factory):
    """Each of the servers in turn."""
    directory = tmp_path_factory.mktemp(request.param.__name__)
    with request.param(directory) as server:
        yield server
