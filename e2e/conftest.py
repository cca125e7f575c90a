"""Fixtures of the end-to-end suite: the built binary as a process, and clients that people use.

All tests talk to bin/orcas over a socket, as any client would. Nothing is mocked. Servers listen on free ports and
keep their data in temporary directories.
"""

import hashlib
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

import boto3
import botocore.config
import pytest
import urllib3

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "bin" / "orcas"
REGION = "us-east-1"
HANG_SECONDS = 300  # only detects hangs; not a performance limit


class Server:
    """A server process. Its standard output and its log are kept in self.banner and self.log."""

    def __init__(self, data, *flags, env=None, access="e2e-access-key", secret="e2e-secret-key-0123456789", binary=BINARY):
        self.data = pathlib.Path(data)
        self.access, self.secret = access, secret
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))}
        if access:
            environ |= {"ORCAS_ROOT_ACCESS_KEY": access, "ORCAS_ROOT_SECRET_KEY": secret}
        environ |= {"ORCAS_MIN_FREE": "0"} | (env or {})
        flags = list(flags)
        if "--address" not in flags:
            flags += ["--address", "127.0.0.1:0"]
        if "--admin-address" not in flags:
            flags += ["--admin-address", "none"]
        self.process = subprocess.Popen(
            [str(binary), "server", "--data", str(self.data), *flags],
            env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._out, self._err, self._lines = [], [], queue.Queue()
        self._threads = [
            threading.Thread(target=self._collect, args=(self.process.stdout, self._out, self._lines), daemon=True),
            threading.Thread(target=self._collect, args=(self.process.stderr, self._err, None), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        try:
            self.endpoint = self._wait_for_endpoint()
        except BaseException:
            self.kill()
            raise

    @staticmethod
    def _collect(stream, lines, signal_to):
        for line in stream:
            lines.append(line)
            if signal_to is not None:
                signal_to.put(line)
        if signal_to is not None:
            signal_to.put(None)

    def _wait_for_endpoint(self):
        endpoint = None
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            if line is None:
                self.process.wait()
                for thread in self._threads:
                    thread.join()
                raise AssertionError(f"the server ended with status {self.process.returncode}: {self.log}")
            if found := re.match(r"\s*endpoint\s+(\S+)", line):
                endpoint = found.group(1)
            if endpoint and re.match(r"\s*credentials\s", line):
                return endpoint

    @property
    def banner(self):
        return "".join(self._out)

    @property
    def log(self):
        return "".join(self._err)

    @property
    def ca(self):
        """The certificate file that clients trust, or None over plain HTTP."""
        return str(self.data / "self-signed.crt") if self.endpoint.startswith("https:") else None

    def client(self, **options):
        """Returns a boto3 client, with the SDK's defaults except for retries and path style. Options are boto3's; config
        is a dict for botocore's Config."""
        config = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}} | options.pop("config", {})
        defaults = dict(
            endpoint_url=self.endpoint, region_name=REGION, verify=self.ca,
            aws_access_key_id=self.access, aws_secret_access_key=self.secret)
        return boto3.session.Session().client("s3", config=botocore.config.Config(**config), **(defaults | options))

    def aws(self, *arguments, check=True, environ=None, **more):
        """Runs aws-cli and returns the completed process. Over TLS it signs with its C library, over plain HTTP without
        it. (boto3 in this process always uses the C library.)"""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))}
        variables |= {
            "BOTO_DISABLE_CRT": "false" if self.ca else "true",
            "AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_EC2_METADATA_DISABLED": "true",
        }
        if self.ca:
            variables["AWS_CA_BUNDLE"] = self.ca
        done = subprocess.run(
            [str(pathlib.Path(sys.executable).parent / "aws"), "--endpoint-url", self.endpoint, *map(str, arguments)],
            env=variables | (environ or {}), capture_output=True, text=True, timeout=HANG_SECONDS, **more)
        if check:
            assert done.returncode == 0, f"aws {arguments}: {done.stdout}{done.stderr}"
        return done

    def http(self, method, path, **more):
        """Sends a plain request without a signature."""
        with urllib3.PoolManager(ca_certs=self.ca) as pool:
            url = path if path.startswith("http") else self.endpoint + path
            return pool.request(method, url, retries=False, **more)

    def stop(self, how=signal.SIGTERM):
        """Sends a signal to the server, unless how is None, waits for its end, and returns its exit status."""
        if how is not None and self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=HANG_SECONDS)
        for thread in self._threads:
            thread.join()
        return self.process.returncode

    def kill(self):
        self.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def binary():
    assert BINARY.exists(), "run `make build` first"
    return BINARY


@pytest.fixture(scope="session", params=["http", "https"])
def server(request, binary, tmp_path_factory):
    """A server that tests share if they need no settings of their own: one over plain HTTP, one over TLS."""
    flags = ["--tls-self-signed"] if request.param == "https" else []
    s = Server(tmp_path_factory.mktemp("data") / request.param, *flags)
    yield s
    assert s.stop() == 0, s.log


@pytest.fixture
def start(binary, tmp_path):
    """Starts servers for a single test, which are killed after it."""
    servers = []

    def start(*flags, data=None, **more):
        s = Server(data or tmp_path / "data", *flags, **more)
        servers.append(s)
        return s

    yield start
    for s in servers:
        s.kill()


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, for the console."""
    from console import launch

    yield from launch()


@pytest.fixture
def console(start, browser):
    """A function that opens the console of a new server: see console.py."""
    from console import consoles

    yield from consoles(start, browser)


@pytest.fixture
def s3(server):
    """A boto3 client for the shared server."""
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def bucket(s3):
    """A bucket for a single test. It is emptied and deleted after the test."""
    name = "e2e-" + uuid.uuid4().hex[:16]
    s3.create_bucket(Bucket=name)
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


def empty(s3, bucket):
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        keys = [{"Key": o["Key"], "VersionId": o["VersionId"]} for o in page.get("Versions", []) + page.get("DeleteMarkers", [])]
        if keys:
            response = s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
            assert not response.get("Errors"), response


def pattern(size, seed=0):
    """Returns bytes without repeated blocks, always the same for the same arguments."""
    block = b"".join(hashlib.sha256(f"{seed}/{i}".encode()).digest() for i in range(2048))  # 64 KiB
    out = bytearray(block * (size // len(block) + 1))[:size]
    for i in range(0, size - 8, len(block)):
        out[i:i + 8] = (i // len(block)).to_bytes(8, "big")
    return bytes(out)


def error_of(info):
    """Returns the code and the HTTP status of the botocore ClientError in a pytest.raises block."""
    response = info.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]
