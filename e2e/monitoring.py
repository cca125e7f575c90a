"""A Prometheus of Debian that scrapes servers, and a load whose requests are counted."""

import collections
import concurrent.futures
import contextlib
import json
import re
import socket
import subprocess
import threading
import time

import botocore.exceptions
import pytest
import urllib3

from conftest import HANG_SECONDS

SCRAPE_INTERVAL = "200ms"


def admin_url(server):
    """The URL of the admin listener."""
    return re.search(r"admin\s+(https?://\S+)", server.banner).group(1)


def scrape(server, **more):
    """The text of /metrics."""
    response = urllib3.request("GET", admin_url(server) + "/metrics", retries=False, **more)
    assert response.status == 200, response.data
    return response.data.decode()


def eventually(check):
    """Calls check until it returns without an AssertionError, and returns its result."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """A process. Scrapes are the entries of scrape_configs, and rules are files; both are written as JSON, which is
    YAML."""

    def __init__(self, home, scrapes, rules=()):
        home.mkdir()
        config = home / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": SCRAPE_INTERVAL, "evaluation_interval": SCRAPE_INTERVAL},
            "scrape_configs": scrapes, "rule_files": [str(r) for r in rules],
        }))
        for _ in range(5):  # another program may take the free port
            self.address = f"127.0.0.1:{free_port()}"
            self.log = home / "log"
            with open(self.log, "w") as log:
                self.process = subprocess.Popen(
                    ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={home}/data",
                     f"--web.listen-address={self.address}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if self._is_ready():
                return
        raise AssertionError(self.log.read_text())

    def _is_ready(self):
        deadline = time.monotonic() + HANG_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if urllib3.request("GET", f"http://{self.address}/-/ready", retries=False).status == 200:
                    return self.process.poll() is None
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.05)
        self.stop()
        return False

    def get(self, path, **fields):
        response = urllib3.request("GET", f"http://{self.address}/api/v1/{path}", fields=fields, retries=False)
        document = response.json()
        assert document["status"] == "success", f"{path} {fields}: {document}"
        return document["data"]

    def query(self, expression):
        """The series of an instant query: a list of pairs of labels and a value."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(r["metric"], float(r["value"][1])) for r in data["result"]]

    def value(self, expression):
        """The value of a query with one series."""
        series = self.query(expression)
        assert len(series) == 1, f"{expression}: {series}"
        return series[0][1]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=HANG_SECONDS)


@pytest.fixture
def prometheus(tmp_path):
    """Starts a Prometheus that scrapes servers under the job name orcas."""
    running = []

    def start(*servers, rules=(), **more):
        scrapes = [{"job_name": "orcas", "static_configs": [
            {"targets": [re.sub("^https?://", "", admin_url(s)) for s in servers]}]} | more]
        p = Prometheus(tmp_path / f"prometheus-{len(running)}", scrapes, rules)
        running.append(p)
        return p

    yield start
    for p in running:
        p.stop()


class Load:
    """Clients that send requests at the same time, and count them by operation and status, and the bytes of the bodies that
    the server has received and sent, by operation."""

    def __init__(self, server, clients=4, bucket="load"):
        self.server, self.bucket, self.clients = server, bucket, clients
        self.requests, self.received, self.sent = collections.Counter(), collections.Counter(), collections.Counter()
        self._lock, self._run = threading.Lock(), 0
        self._failures = []
        self.count("CreateBucket", server.client().create_bucket, Bucket=bucket)

    def count(self, operation, call, **arguments):
        try:
            response = call(**arguments)
        except botocore.exceptions.ClientError as e:
            response = e.response
        head = response["ResponseMetadata"]
        sent = 0 if operation == "HeadObject" else int(head["HTTPHeaders"].get("content-length", 0))
        self.add(operation, head["HTTPStatusCode"], len(arguments.get("Body", b"")), sent)
        return response

    def add(self, operation, status, received, sent):
        with self._lock:
            self.requests[operation, str(status)] += 1
            self.received[operation] += received
            self.sent[operation] += sent

    def client(self, number, turns):
        """The requests of one client. Their content is new, since the server does not receive content that it has."""
        s3 = self.server.client()
        stranger = self.server.client(aws_secret_access_key="a wrong secret key")
        for turn in range(turns):
            key = f"{number}/{turn}"
            at = {"Bucket": self.bucket, "Key": key}
            content = f"{self._run}/{key}".encode() * 500
            self.count("PutObject", s3.put_object, **at, Body=content)
            assert self.count("GetObject", s3.get_object, **at)["Body"].read() == content
            self.count("HeadObject", s3.head_object, **at)
            self.count("GetObject", s3.get_object, Bucket=self.bucket, Key="none")
            self.count("ListObjectsV2", s3.list_objects_v2, Bucket=self.bucket, Prefix=f"{number}/", MaxKeys=2)
            if turn % 3 == 0:
                self.count("DeleteObject", s3.delete_object, **at)
            if turn % 5 == 0:
                self.count("Unknown", stranger.get_object, **at)
                response = self.server.http("GET", f"/{self.bucket}/{key}")
                self.add("GetObject", response.status, 0, len(response.data))

    def run(self, turns):
        """Sends requests with all clients, and waits for their end."""
        def run(number):
            try:
                self.client(number, turns)
            except BaseException as e:  # of any kind: it must not be lost in the thread
                self._failures.append(e)

        self._run += 1
        threads = [threading.Thread(target=run, args=(n,)) for n in range(self.clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(timeout=HANG_SECONDS)
        assert not self._failures, self._failures

    @contextlib.contextmanager
    def running(self):
        """Repeats the requests in the background until the block ends."""
        ended = threading.Event()

        def repeat():
            while not ended.is_set():
                self.run(turns=20)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            repeating = pool.submit(repeat)
            try:
                yield
            finally:
                ended.set()
            repeating.result()


def promtool(*arguments, **more):
    """Runs promtool, which must find nothing."""
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=HANG_SECONDS, **more)
    assert done.returncode == 0, f"promtool {arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr
