"""Tags and object lock, as boto3 and aws-cli use them."""

import datetime
import json
import uuid

import pytest
from botocore.exceptions import ClientError

from conftest import error_of, pattern

NOW = lambda: datetime.datetime.now(datetime.timezone.utc)
HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def locked(s3):
    """A bucket with object lock. Versions have at most governance retention, so the fixture can delete them."""
    name = "e2e-" + uuid.uuid4().hex[:16]
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    yield name
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
        for v in page.get("Versions", []) + page.get("DeleteMarkers", []):
            if v in page.get("Versions", []):
                s3.put_object_legal_hold(Bucket=name, Key=v["Key"], VersionId=v["VersionId"], LegalHold={"Status": "OFF"})
            s3.delete_object(Bucket=name, Key=v["Key"], VersionId=v["VersionId"], BypassGovernanceRetention=True)
    s3.delete_bucket(Bucket=name)


def tags(s3, bucket, key, **more):
    return {t["Key"]: t["Value"] for t in s3.get_object_tagging(Bucket=bucket, Key=key, **more)["TagSet"]}


def test_tags(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1&b=two+words")
    assert tags(s3, bucket, "k") == {"a": "1", "b": "two words"}
    assert s3.head_object(Bucket=bucket, Key="k")["TagCount"] == 2
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "ключ", "Value": "värde"}]})
    assert tags(s3, bucket, "k") == {"ключ": "värde"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
    assert tags(s3, bucket, "copy") == {"ключ": "värde"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k", TaggingDirective="REPLACE", Tagging="c=3")
    assert tags(s3, bucket, "copy") == {"c": "3"}
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert tags(s3, bucket, "k") == {}
    with pytest.raises(ClientError) as e:
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": str(i), "Value": ""} for i in range(11)]})
    assert error_of(e) == ("BadRequest", 400)
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "p", "Tagging": "a=1"})
    assert "agging" in url
    body = pattern(6 << 20)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", Tagging="m=1")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=body)["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert tags(s3, bucket, "m") == {"m": "1"}


def test_retention(s3, locked):
    until = (NOW() + HOUR).replace(microsecond=0)
    v = s3.put_object(Bucket=locked, Key="k", Body=b"x", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)["VersionId"]
    head = s3.head_object(Bucket=locked, Key="k")
    assert head["ObjectLockMode"] == "GOVERNANCE" and head["ObjectLockRetainUntilDate"] == until
    assert s3.get_object_retention(Bucket=locked, Key="k")["Retention"] == {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    with pytest.raises(ClientError) as e:
        s3.delete_object(Bucket=locked, Key="k", VersionId=v)
    assert error_of(e) == ("AccessDenied", 403)
    s3.put_object_retention(Bucket=locked, Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until + HOUR})
    with pytest.raises(ClientError) as e:
        s3.put_object_retention(Bucket=locked, Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until})
    assert error_of(e) == ("AccessDenied", 403)
    s3.put_object_retention(Bucket=locked, Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until}, BypassGovernanceRetention=True)
    s3.put_object_retention(Bucket=locked, Key="k", Retention={}, BypassGovernanceRetention=True)
    with pytest.raises(ClientError) as e:
        s3.get_object_retention(Bucket=locked, Key="k")
    assert error_of(e) == ("NoSuchObjectLockConfiguration", 404)
    with pytest.raises(ClientError) as e:
        s3.put_object_retention(Bucket=locked, Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": NOW() - HOUR})
    assert error_of(e) == ("InvalidArgument", 400)
    with pytest.raises(ClientError) as e:
        s3.put_bucket_versioning(Bucket=locked, VersioningConfiguration={"Status": "Suspended"})
    assert error_of(e) == ("InvalidBucketState", 409)
    s3.delete_object(Bucket=locked, Key="k", VersionId=v)


def test_legal_hold_and_delete_objects(s3, locked):
    held = s3.put_object(Bucket=locked, Key="held", Body=b"x", ObjectLockLegalHoldStatus="ON")["VersionId"]
    free = s3.put_object(Bucket=locked, Key="free", Body=b"x")["VersionId"]
    response = s3.delete_objects(Bucket=locked, BypassGovernanceRetention=True, Delete={
        "Objects": [{"Key": "held", "VersionId": held}, {"Key": "free", "VersionId": free}]})
    assert [d["Key"] for d in response["Deleted"]] == ["free"]
    assert [(e["Key"], e["Code"]) for e in response["Errors"]] == [("held", "AccessDenied")]
    assert s3.get_object_legal_hold(Bucket=locked, Key="held")["LegalHold"]["Status"] == "ON"
    s3.put_object_legal_hold(Bucket=locked, Key="held", LegalHold={"Status": "OFF"})
    assert s3.head_object(Bucket=locked, Key="held")["ObjectLockLegalHoldStatus"] == "OFF"


def test_default_retention(server, s3, locked):
    rule = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
    server.aws("s3api", "put-object-lock-configuration", "--bucket", locked, "--object-lock-configuration", json.dumps(rule))
    assert s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"] == rule
    s3.put_object(Bucket=locked, Key="k", Body=b"x")
    head = s3.head_object(Bucket=locked, Key="k")
    assert abs(head["ObjectLockRetainUntilDate"] - head["LastModified"] - 24 * HOUR) < datetime.timedelta(seconds=2)
    response = json.loads(server.aws("s3api", "get-object-retention", "--bucket", locked, "--key", "k").stdout)
    assert response["Retention"]["Mode"] == "GOVERNANCE"


def test_without_a_lock(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for call, code in [
        (lambda: s3.get_object_lock_configuration(Bucket=bucket), ("ObjectLockConfigurationNotFoundError", 404)),
        (lambda: s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"}), ("InvalidBucketState", 409)),
        (lambda: s3.get_object_retention(Bucket=bucket, Key="k"), ("InvalidRequest", 400)),
        (lambda: s3.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"}), ("InvalidRequest", 400)),
        (lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"x", ObjectLockLegalHoldStatus="ON"), ("InvalidRequest", 400)),
    ]:
        with pytest.raises(ClientError) as e:
            call()
        assert error_of(e) == code
    # The cleanup code of many tools sends the bypass header to every bucket.
    s3.delete_objects(Bucket=bucket, BypassGovernanceRetention=True, Delete={"Objects": [{"Key": "other"}]})
    s3.delete_object(Bucket=bucket, Key="k", BypassGovernanceRetention=True)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
