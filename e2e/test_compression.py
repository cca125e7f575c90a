"""Compression per bucket and for the whole server, with boto3 and the server as a process."""

import gzip
import json
import os

from conftest import pattern
from test_operations import admin, block_bytes, orcas


def record(n):
    """Returns a small document that is similar to the others."""
    return json.dumps(
        {"order": n * 7919, "customer": {"name": f"customer {n}", "country": "NO", "newsletter": n % 2 == 0}, "state": "delivered",
         "items": [{"sku": f"{n * 31 + i:08d}", "title": "insulated bottle", "quantity": 1 + i, "price": {"currency": "EUR", "amount": n % 97}} for i in range(20)]}
    ).encode()


def test_compression_of_a_bucket(start, tmp_path):
    s = start("--admin-address", "127.0.0.1:0", data=tmp_path / "d")
    s3 = s.client()
    for bucket in ("plain", "small"):
        s3.create_bucket(Bucket=bucket)
    assert "compression default" in orcas(s, "admin", "bucket", "small", "--admin-address", admin(s)).stdout
    assert "compression better" in orcas(s, "admin", "bucket", "small", "--compression", "better", "--admin-address", admin(s)).stdout
    assert "expected off, fast or better" in orcas(s, "admin", "bucket", "small", "--compression", "best", "--admin-address", admin(s), status=1).stderr
    orcas(s, "admin", "bucket", "nowhere", "--compression", "fast", "--admin-address", admin(s), status=1)

    text = b"".join(record(n) for n in range(4000))
    before, etags = block_bytes(s.data), {}
    for bucket in ("plain", "small"):
        etags[bucket] = s3.put_object(Bucket=bucket, Key="large", Body=text)["ETag"]
        grown = block_bytes(s.data) - before
        before += grown
        assert grown > len(text) * 0.99 if bucket == "plain" else grown < len(text) / 3, (bucket, grown, len(text))
    assert etags["plain"] == etags["small"]
    head = s3.head_object(Bucket="small", Key="large")
    assert head["ContentLength"] == len(text) and "ContentEncoding" not in head
    for first, last in ((0, 0), (5, 4099), (262_143, 262_145), (1_000_000, 1_500_000), (len(text) - 10, len(text) - 1)):
        got = s3.get_object(Bucket="small", Key="large", Range=f"bytes={first}-{last}")
        assert got["Body"].read() == text[first : last + 1]

    want = {"large": text}
    for n in range(300):  # enough to train a dictionary, which may or may not be ready yet
        want[f"record/{n}"] = record(n)
    want |= {"random": os.urandom(700_000), "gzip": gzip.compress(text), "pattern": pattern(300_000), "empty": b"", "byte": b"x"}
    for key, body in want.items():
        extra = {"ContentEncoding": "gzip"} if key == "gzip" else {}
        s3.put_object(Bucket="small", Key=key, Body=body, **extra)
    s3.copy_object(Bucket="plain", Key="copy", CopySource={"Bucket": "small", "Key": "large"})

    def check():
        client = s.client()
        for key, body in want.items():
            assert client.get_object(Bucket="small", Key=key)["Body"].read() == body, key
        assert client.get_object(Bucket="plain", Key="copy")["Body"].read() == text

    check()
    orcas(s, "admin", "scrub", "--wait", "--admin-address", admin(s))
    orcas(s, "admin", "reclaim", "--wait", "--admin-address", admin(s))
    check()
    orcas(s, "admin", "fsck", "--content", "--admin-address", admin(s))
    assert s.stop() == 0
    orcas(s, "fsck", "--data", s.data, "--content")
    orcas(s, "rebuild", "--data", s.data)
    s = start(data=tmp_path / "d")
    check()
    orcas(s, "backup", tmp_path / "b", "--data", s.data, status=1)  # a server is using the directory
    assert s.stop() == 0
    orcas(s, "backup", tmp_path / "b", "--data", tmp_path / "d")
    orcas(s, "restore", tmp_path / "b", "--data", tmp_path / "again")
    s = start(data=tmp_path / "again")
    check()


def test_default_of_the_server(start, tmp_path):
    s = start(data=tmp_path / "d", env={"ORCAS_COMPRESSION": "fast"})
    s3 = s.client()
    s3.create_bucket(Bucket="bucket")
    before = block_bytes(s.data)
    text = b"".join(record(n) for n in range(2000))
    s3.put_object(Bucket="bucket", Key="k", Body=text)
    assert block_bytes(s.data) - before < len(text) / 3
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == text
