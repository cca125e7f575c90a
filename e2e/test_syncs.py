"""The number of sync system calls per write, measured with strace."""

import contextlib
import re
import subprocess

from conftest import HANG_SECONDS

SYNCS = "fsync,fdatasync,msync,sync_file_range,sync,syncfs"


@contextlib.contextmanager
def traced(server, path):
    """Traces the server's sync calls. Yields a list of (call, file), which is filled when the context ends."""
    calls = []
    tracer = subprocess.Popen(
        ["strace", "-f", "-y", "-e", f"trace={SYNCS}", "-e", "signal=none", "-o", str(path), "-p", str(server.process.pid)],
        stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    try:
        yield calls
    finally:
        tracer.terminate()
        tracer.communicate(timeout=HANG_SECONDS)
        for line in path.read_text().splitlines():
            if found := re.match(r"\d+\s+(\w+)\(\d+<([^>]*)>", line):
                calls.append((found.group(1), found.group(2).rsplit("/", 1)[-1]))


def test_a_small_put_costs_one_sync(start, tmp_path):
    s = start()
    s3 = s.client()
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="first", Body=b"creates a block")
    for body in b"", b"small", b"x" * 65536:
        with traced(s, tmp_path / "trace") as calls:
            s3.put_object(Bucket="bucket", Key="key", Body=body)
        assert calls == [("fdatasync", "00000001.packed")], len(body)
    with traced(s, tmp_path / "trace") as calls:
        s3.delete_object(Bucket="bucket", Key="key")
    assert calls == [("fdatasync", "00000001.packed")]


def test_a_large_put_syncs_its_own_file(start, tmp_path):
    s = start()
    s3 = s.client()
    s3.create_bucket(Bucket="bucket")
    for key in "first", "second":
        with traced(s, tmp_path / "trace") as calls:
            s3.put_object(Bucket="bucket", Key=key, Body=key.encode() * 20_000)
    large = re.compile(r"\d{8}\.large")
    assert [name if name == "00000" or ".packed" in name else bool(large.fullmatch(name)) for _, name in calls] == [True, "00000", "00000001.packed"]
    assert [call for call, _ in calls] == ["fdatasync", "fsync", "fdatasync"]


def test_without_packing_each_object_has_a_file(start, tmp_path):
    s = start(env={"ORCAS_BATCH_WRITE_ENABLED": "false"})
    s3 = s.client()
    s3.create_bucket(Bucket="bucket")
    with traced(s, tmp_path / "trace") as calls:
        s3.put_object(Bucket="bucket", Key="key", Body=b"small")
    assert [call for call, _ in calls] == ["fdatasync", "fsync"]
    assert re.fullmatch(r"\d{8}\.packed", calls[0][1]) and calls[1][1] == "00000"
