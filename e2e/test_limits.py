"""Limits of requests and bytes per second, trusted proxies, and the limit on memory."""

import json

import pytest
from botocore.exceptions import ClientError

from conftest import error_of, pattern


def test_sdk_retries_after_slow_down(start):
    """A client without retries sees SlowDown, and one with retries does not notice the limit."""
    s = start(env={"ORCAS_LIMIT_KEY_RATE": "1", "ORCAS_BUCKETS": "bucket"})
    once, patient = s.client(), s.client(config={"retries": {"mode": "standard", "total_max_attempts": 20}})
    with pytest.raises(ClientError) as info:
        for i in range(1000):
            once.put_object(Bucket="bucket", Key=f"once-{i}", Body=b"x")
    assert error_of(info) == ("SlowDown", 503)
    assert int(info.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"]) >= 1
    for i in range(4):
        patient.put_object(Bucket="bucket", Key=f"patient-{i}", Body=b"x")


def test_bandwidth(start):
    """Bodies in both directions arrive unchanged, and not faster than allowed."""
    s = start(env={"ORCAS_LIMIT_ADDRESS_BANDWIDTH": "1MiB", "ORCAS_BUCKETS": "bucket"})
    client, body = s.client(), pattern(3 << 20)
    client.put_object(Bucket="bucket", Key="key", Body=body)
    assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == body
    assert s.stop() == 0
    took = [r["took_us"] for r in map(json.loads, s.log.splitlines()) if r.get("operation") in ("PutObject", "GetObject")]
    assert len(took) == 2 and sum(took) >= 3_900_000, took  # 3 MiB each, of which at most one is free


def test_trusted_proxy(start):
    """The policy of a bucket, and the log, see the address that a trusted proxy passes on."""
    s = start(env={"ORCAS_TRUSTED_PROXIES": "127.0.0.1", "ORCAS_BUCKETS": "bucket", "ORCAS_PUBLIC_ACCESS_BLOCK": "off"})
    client = s.client()
    client.put_object(Bucket="bucket", Key="key", Body=b"hello")
    client.put_bucket_policy(Bucket="bucket", Policy=json.dumps({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}}]}))
    for forwarded, status in [
        ("203.0.113.9", 200), ("198.51.100.1, 203.0.113.9", 200), ("203.0.113.9, 127.0.0.1", 200),
        ("203.0.113.9, 198.51.100.1", 403), ("203.0.113.9, nonsense", 403), (None, 403),
    ]:
        headers = {"X-Forwarded-For": forwarded} if forwarded else {}
        assert s.http("GET", "/bucket/key", headers=headers).status == status, forwarded
    assert s.stop() == 0
    remotes = [r["remote"] for r in map(json.loads, s.log.splitlines()) if r.get("operation") == "GetObject"]
    assert remotes[:3] == ["203.0.113.9:0"] * 3 and remotes[3] == "198.51.100.1:0", remotes


def test_memory_setting(start):
    """The server logs how it divides its memory."""
    s = start(env={"ORCAS_MEMORY": "128MiB", "ORCAS_BUCKETS": "bucket"})
    client, body = s.client(), pattern(9 << 20)
    client.put_object(Bucket="bucket", Key="key", Body=body)
    assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == body
    assert s.stop() == 0
    plan = [r for r in map(json.loads, s.log.splitlines()) if r["msg"] == "memory is limited"]
    assert len(plan) == 1 and plan[0]["limit"] == "128MiB" and plan[0]["from"] == "ORCAS_MEMORY", plan
