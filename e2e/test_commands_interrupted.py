"""Transfers by the command line that are cut, killed, or whose server is killed: everything arrives whole, and what the
server or the file has is not sent again."""

import os
import random
import signal
import subprocess
import time

import pytest

from conftest import BINARY, HANG_SECONDS, pattern
from wire import Wire

MIB = 1 << 20
PART = 5 * MIB
SIZE = 61 * MIB + 17
CUTS, KILLS, RESTARTS = 100, 50, 20
PARALLEL = 8  # more parts than are transferred at the same time


@pytest.fixture
def wire(start, tmp_path):
    """A server, and a proxy in front of it."""
    server = start()
    host, port = server.endpoint.split("//")[1].split(":")
    wire = Wire((host, int(port)))
    wire.server = server
    wire.s3 = server.client()
    wire.s3.create_bucket(Bucket="bucket")
    yield wire
    wire.close()


def orcas(wire, tmp_path, *arguments):
    """Starts a command. Its state files are in tmp_path."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | {
        "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "AWS_ACCESS_KEY_ID": wire.server.access,
        "AWS_SECRET_ACCESS_KEY": wire.server.secret, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": wire.endpoint, "ORCAS_REF_LEVEL": "OFF"}
    return subprocess.Popen([str(BINARY), *map(str, arguments)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process):
    """Waits for a command. Returns its exit status and its messages."""
    try:
        _, text = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    return process.returncode, text


def repeat(wire, tmp_path, arguments, enough=lambda: True):
    """Runs a command until it succeeds; failures must be those of the network (6), or of some files (8)."""
    for _ in range(2 * CUTS):
        status, text = finish(orcas(wire, tmp_path, *arguments))
        if status == 0 and enough():
            return
        assert status in (0, 6, 8), (status, text)
    raise AssertionError("no end")


def test_cut_upload(wire, tmp_path):
    """100 connections are cut at random bytes of uploads."""
    path, content = tmp_path / "file", pattern(SIZE, 1)
    path.write_bytes(content)
    wire.cut(CUTS, 3 * MIB)
    key = 0
    while wire.cuts < CUTS * 9 // 10 or key == 0:
        key += 1
        before = wire.cuts
        wire.sent = 0
        repeat(wire, tmp_path, ["cp", "--part-size", "5MiB", path, f"s3://bucket/file-{key}"])
        assert wire.s3.get_object(Bucket="bucket", Key=f"file-{key}")["Body"].read() == content
        assert wire.sent < SIZE + (wire.cuts - before + 1) * (PART + 64 * 1024), "no more than the part that was cut is sent again"
        assert key < CUTS
    assert not wire.s3.list_multipart_uploads(Bucket="bucket").get("Uploads")


def test_cut_download(wire, tmp_path):
    """100 connections are cut at random bytes of downloads."""
    content = pattern(SIZE, 2)
    wire.s3.put_object(Bucket="bucket", Key="file", Body=content)
    wire.cut(CUTS, 3 * MIB)
    number = 0
    while wire.cuts < CUTS * 9 // 10 or number == 0:
        number += 1
        before, path = wire.cuts, tmp_path / f"file-{number}"
        wire.received = 0
        repeat(wire, tmp_path, ["cp", "--part-size", "5MiB", "s3://bucket/file", path])
        assert path.read_bytes() == content
        assert wire.received < SIZE + (wire.cuts - before + 1) * (PART + 64 * 1024)
        path.unlink()
        assert number < CUTS
    assert not [p for p in tmp_path.iterdir() if p.name.startswith((".file", "file"))], "nothing is left behind"


@pytest.mark.parametrize("direction", ["up", "down"])
def test_killed_client(wire, tmp_path, direction):
    """The command is killed 50 times, at random times, and continues each time where it was."""
    draw, content = random.Random(direction), pattern(SIZE, 3)
    path = tmp_path / "file"
    path.write_bytes(content)
    wire.s3.put_object(Bucket="bucket", Key="source", Body=content)
    arguments = ["cp", "--part-size", "5MiB", "--bandwidth", "80MiB/s", path, "s3://bucket/file"]
    if direction == "down":
        path = tmp_path / "back"
        arguments[-2:] = ["s3://bucket/source", path]
    kills = files = 0
    while kills < KILLS:
        files += 1
        there, transferred, killed = set(), 0, 0
        while True:
            wire.parts.clear()
            wire.sent = wire.received = 0
            process = orcas(wire, tmp_path, *arguments)
            try:
                process.wait(draw.uniform(0.02, 0.5) if kills < KILLS else HANG_SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills, killed = kills + 1, killed + 1
            status, text = finish(process)
            transferred += wire.sent if direction == "up" else wire.received
            resent = there & set(wire.parts)
            assert not resent, f"parts that the server had were sent again: {resent}"
            if status == 0:
                break
            assert status == -signal.SIGKILL, (status, text)
            if direction == "up":
                time.sleep(0.05)  # the server may still be storing parts that it has received
                for upload in wire.s3.list_multipart_uploads(Bucket="bucket").get("Uploads", []):
                    parts = wire.s3.list_parts(Bucket="bucket", Key="file", UploadId=upload["UploadId"]).get("Parts", [])
                    there |= {p["PartNumber"] for p in parts}
        if direction == "up":
            assert wire.s3.get_object(Bucket="bucket", Key="file")["Body"].read() == content
            wire.s3.delete_object(Bucket="bucket", Key="file")
        else:
            assert path.read_bytes() == content
            path.unlink()
        assert transferred < SIZE + killed * PARALLEL * (PART + 64 * 1024)
    assert not wire.s3.list_multipart_uploads(Bucket="bucket").get("Uploads")


def test_killed_server(wire, start, tmp_path):
    """The server is killed 20 times during transfers, and started again at once."""
    draw, content = random.Random(4), pattern(SIZE, 4)
    path, back = tmp_path / "file", tmp_path / "back"
    path.write_bytes(content)
    address = wire.server.endpoint.split("//")[1]
    wire.s3.put_object(Bucket="bucket", Key="source", Body=content)
    for i in range(RESTARTS):
        up = i % 2 == 0
        arguments = ["cp", "--part-size", "5MiB", "--bandwidth", "100MiB/s", *([path, f"s3://bucket/file-{i}"] if up else ["s3://bucket/source", back])]
        process = orcas(wire, tmp_path, *arguments)
        time.sleep(draw.uniform(0.05, 0.5))
        wire.server.stop(signal.SIGKILL)
        wire.server = start("--address", address)
        status, text = finish(process)
        if status != 0:
            assert status in (6, 8), (status, text)
            repeat(wire, tmp_path, arguments)
        if up:
            assert wire.server.client().get_object(Bucket="bucket", Key=f"file-{i}")["Body"].read() == content
        else:
            assert back.read_bytes() == content
            back.unlink()
