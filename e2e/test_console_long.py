"""The console with a very large file and with very many objects: make console-long. The figures are printed, and nothing
depends on them."""

import concurrent.futures
import json
import os
import socket
import time

import pytest

from test_console_objects import resume_upload, shown  # noqa: F401

if "ORCAS_CONSOLE_LONG" not in os.environ:
    pytest.skip("these tests take minutes: make console-long", allow_module_level=True)

os.environ["ORCAS_CONSOLE_UPLOAD"] = str(5 << 30)
KEYS = 1_000_000
WORKERS = 50


def memory(console):
    """Returns the resident memory of the server and the heap of the page, in MiB."""
    with open(f"/proc/{console.server.process.pid}/status") as f:
        resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) >> 10
    return resident, console.page.evaluate("performance.memory.usedJSHeapSize") >> 20


def test_memory_after_a_large_upload(console, tmp_path):
    began = time.monotonic()
    shown = resume_upload(console, tmp_path)
    print(f"5 GiB, cut off and resumed, in {time.monotonic() - began:.0f} s: server %d MiB, page %d MiB" % memory(shown))


def fill(shown):
    """Puts KEYS empty objects: without signatures, which would take longer than the rest, and 16 requests in a row."""
    shown.s3.delete_public_access_block(Bucket="shown")
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::shown/*"}
    shown.s3.put_bucket_policy(Bucket="shown", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    host, port = shown.server.endpoint.removeprefix("http://").split(":")

    def put(first):
        with socket.create_connection((host, int(port))) as connection:
            for i in range(first, first + KEYS // WORKERS, 16):
                numbers = range(i, min(i + 16, first + KEYS // WORKERS))
                connection.sendall(b"".join(b"PUT /shown/%08d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" % n for n in numbers))
                answer = b""
                while answer.count(b"\r\n\r\n") < len(numbers):
                    some = connection.recv(1 << 16)
                    assert some, answer
                    answer += some
                assert answer.count(b"HTTP/1.1 200 ") == len(numbers), answer

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(put, range(0, KEYS, KEYS // WORKERS)))


def test_million_keys(shown):
    fill(shown)
    opened = []
    for _ in range(5):
        began = time.monotonic()
        shown.page.reload()
        shown.says("500 rows so far")
        opened.append(time.monotonic() - began)
    for rows in range(2, 7):
        shown.click("Load more")
        shown.says(f"{min(rows * 500, 2000):,} rows so far")
        if rows > 4:
            shown.says("rows are no longer shown")
    print(f"{KEYS:,} keys: first page after {sorted(opened)[2]:.2f} s, the median of 5; server %d MiB, page %d MiB" % memory(shown))
