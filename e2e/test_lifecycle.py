"""Lifecycle rules, with days of one second: boto3 gets its rules back, and only expired objects are deleted."""

import datetime
import email.utils
import re
import time

import pytest
from botocore.exceptions import ClientError

from conftest import HANG_SECONDS, error_of, pattern
from test_operations import admin, orcas

DAY_SECONDS = 1
EXPIRY = re.compile(r'expiry-date="(.+)", rule-id="(.+)"')


@pytest.fixture
def server(start):
    """A server that evaluates lifecycle rules only on request."""
    return start("--admin-address", "127.0.0.1:0", env={"ORCAS_LIFECYCLE_DAY_SEC": str(DAY_SECONDS), "ORCAS_LIFECYCLE_INTERVAL_SEC": "0"})


@pytest.fixture
def s3(server):
    client = server.client()
    client.create_bucket(Bucket="bucket")
    yield client
    client.close()


def configure(s3, *rules):
    rules = [{"ID": f"rule {i}", "Status": "Enabled", **({} if "Prefix" in r else {"Filter": {}}), **r} for i, r in enumerate(rules)]
    s3.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": rules})
    return rules


def run(server):
    return orcas(server, "admin", "lifecycle", "run", "--wait", "--admin-address", admin(server)).stdout


def until(what):
    """Waits until a condition is true."""
    deadline = time.monotonic() + HANG_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def pass_days(n):
    """Waits until objects written so far are more than n days old."""
    end = time.time() + n * DAY_SECONDS
    until(lambda: int(time.time() / DAY_SECONDS) > int(end / DAY_SECONDS))


def keys(s3):
    return [o["Key"] for o in s3.list_objects_v2(Bucket="bucket").get("Contents", [])]


def versions(s3):
    page = s3.list_object_versions(Bucket="bucket")
    return [(v["Key"], v["VersionId"]) for v in page.get("Versions", [])], [(m["Key"], m["VersionId"]) for m in page.get("DeleteMarkers", [])]


def test_the_document(s3):
    with pytest.raises(ClientError) as info:
        s3.get_bucket_lifecycle_configuration(Bucket="bucket")
    assert error_of(info) == ("NoSuchLifecycleConfiguration", 404)
    midnight = datetime.datetime(2031, 5, 1, tzinfo=datetime.timezone.utc)
    rules = configure(
        s3,
        {"Expiration": {"Days": 30}, "NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 2}},
        {"Filter": {"Prefix": "a/"}, "Expiration": {"Date": midnight}},
        {"Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Status": "Disabled", "Expiration": {"Days": 1}},
        {"Filter": {"And": {"Prefix": "b", "Tags": [{"Key": "k", "Value": "v"}], "ObjectSizeGreaterThan": 1, "ObjectSizeLessThan": 9}}, "Expiration": {"Days": 1}},
        {"Filter": {"ObjectSizeGreaterThan": 500}, "Expiration": {"Days": 1}},
        {"Expiration": {"ExpiredObjectDeleteMarker": True}},
        {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}},
    )
    response = s3.get_bucket_lifecycle_configuration(Bucket="bucket")
    assert response["Rules"] == rules
    assert response["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    with pytest.raises(ClientError) as info:
        configure(s3, {"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]})
    assert error_of(info) == ("NotImplemented", 501)
    assert s3.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"] == rules
    s3.delete_bucket_lifecycle(Bucket="bucket")
    with pytest.raises(ClientError):
        s3.get_bucket_lifecycle_configuration(Bucket="bucket")


def test_objects_expire(server, s3):
    configure(s3, {"Filter": {"Prefix": "log/"}, "Expiration": {"Days": 2}}, {"Filter": {"ObjectSizeGreaterThan": 1000}, "Expiration": {"Days": 1}})
    for key, size in [("log/a", 10), ("log/large", 70_000), ("large", 1001), ("small", 1000)]:
        expiration = s3.put_object(Bucket="bucket", Key=key, Body=pattern(size)).get("Expiration")
        head = s3.head_object(Bucket="bucket", Key=key)
        assert head.get("Expiration") == expiration == s3.get_object(Bucket="bucket", Key=key).get("Expiration")
        if key == "small":
            assert expiration is None
            continue
        date, rule = EXPIRY.fullmatch(expiration).groups()
        days = 1 if "large" in key else 2
        assert rule == f"rule {2 - days}"
        due = email.utils.parsedate_to_datetime(date)
        assert 0 <= (due - head["LastModified"]).total_seconds() - days * 86_400 <= 86_400  # real days, regardless of ORCAS_LIFECYCLE_DAY_SEC
    configure(s3, {"Filter": {"Prefix": "log/"}, "Expiration": {"Days": 100_000}}, {"Filter": {"ObjectSizeGreaterThan": 1000}, "Expiration": {"Days": 1}})
    pass_days(1)
    assert run(server).startswith("deleted 2 expired objects,")
    assert keys(s3) == ["log/a", "small"]
    configure(s3, {"Filter": {"Prefix": "log/"}, "Expiration": {"Days": 1}})
    assert run(server).startswith("deleted 1 expired objects,")
    assert keys(s3) == ["small"]
    assert "passes since startup: 2" in orcas(server, "admin", "lifecycle", "status", "--admin-address", admin(server)).stdout


def test_versions_expire(server, s3):
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket="bucket", Key="key", Body=pattern(100, i))["VersionId"] for i in range(6)]
    configure(s3, {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}})
    pass_days(1)
    assert "3 noncurrent versions," in run(server)
    assert versions(s3) == ([("key", v) for v in reversed(ids[3:])], [])
    configure(s3, {"Expiration": {"Days": 1}})
    assert run(server).startswith("deleted 1 expired objects,")
    assert keys(s3) == []
    (left, markers) = versions(s3)
    assert len(left) == 3 and len(markers) == 1
    configure(s3, {"Expiration": {"ExpiredObjectDeleteMarker": True}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}})
    pass_days(1)
    assert "3 noncurrent versions, 0 delete markers" in run(server)
    assert "0 noncurrent versions, 1 delete markers" in run(server)
    assert versions(s3) == ([], [])


def test_uploads_are_aborted(server, s3):
    configure(s3, {"Filter": {"Prefix": "up/"}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}})
    response = s3.create_multipart_upload(Bucket="bucket", Key="up/a")
    assert response["AbortRuleId"] == "rule 0" and response["AbortDate"]
    s3.upload_part(Bucket="bucket", Key="up/a", UploadId=response["UploadId"], PartNumber=1, Body=b"x")
    assert "AbortDate" not in s3.create_multipart_upload(Bucket="bucket", Key="other")
    pass_days(1)
    assert "and 1 uploads;" in run(server)
    assert [u["Key"] for u in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]] == ["other"]


def test_it_runs_by_itself_and_after_a_kill(start, tmp_path):
    """A server that was killed during a pass continues after the next start, without a request."""
    env = {"ORCAS_LIFECYCLE_DAY_SEC": str(DAY_SECONDS)}
    server = start(data=tmp_path / "data", env=env | {"ORCAS_LIFECYCLE_INTERVAL_SEC": "0"}, *("--admin-address", "127.0.0.1:0"))
    s3 = server.client()
    s3.create_bucket(Bucket="bucket")
    for i in range(300):
        s3.put_object(Bucket="bucket", Key=f"due/{i}", Body=pattern(200))
    s3.put_object(Bucket="bucket", Key="stays", Body=b"x")
    configure(s3, {"Filter": {"Prefix": "due/"}, "Expiration": {"Days": 1}})
    pass_days(1)
    orcas(server, "admin", "lifecycle", "run", "--admin-address", admin(server))
    server.kill()
    server = start(data=tmp_path / "data", env=env)
    until(lambda: keys(server.client()) == ["stays"])
    assert server.stop() == 0
