"""Versions and bucket documents, with boto3 and aws-cli."""

import json

import pytest
from botocore.exceptions import ClientError

from conftest import error_of, pattern


def listed(s3, bucket, **more):
    """Returns all versions and delete markers, read page by page: (key, version ID, is a delete marker, is the newest)."""
    out = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, **more):
        for kind in ("Versions", "DeleteMarkers"):
            out += [(v["Key"], v["VersionId"], kind == "DeleteMarkers", v["IsLatest"]) for v in page.get(kind, [])]
    return out


def enable(s3, bucket, status="Enabled"):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status


def test_history_of_a_key(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert "VersionId" not in s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    enable(s3, bucket)
    ids = [s3.put_object(Bucket=bucket, Key="k", Body=pattern(100_000, i))["VersionId"] for i in range(3)]
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert marker["DeleteMarker"] is True
    with pytest.raises(ClientError) as e:
        s3.get_object(Bucket=bucket, Key="k")
    assert error_of(e) == ("NoSuchKey", 404) and e.value.response["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"] == "true"
    with pytest.raises(ClientError) as e:
        s3.head_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    assert error_of(e) == ("405", 405)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    # The listing has every version, whatever the page size.
    want = {("k", marker["VersionId"], True, True), ("k", "null", False, False)} | {("k", i, False, False) for i in ids}
    for size in (1, 2, 1000):
        got = listed(s3, bucket, PaginationConfig={"PageSize": size})
        assert len(got) == 5 and set(got) == want
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"before"
    for n, i in enumerate(ids):
        assert s3.get_object(Bucket=bucket, Key="k", VersionId=i, Range="bytes=99990-")["Body"].read() == pattern(100_000, n)[99_990:]
    # An old version becomes current by a copy onto its key, or when the delete marker is deleted.
    back = s3.copy_object(Bucket=bucket, Key="k", CopySource={"Bucket": bucket, "Key": "k", "VersionId": ids[0]})
    assert back["CopySourceVersionId"] == ids[0] and s3.get_object(Bucket=bucket, Key="k")["Body"].read() == pattern(100_000, 0)
    s3.delete_object(Bucket=bucket, Key="k", VersionId=back["VersionId"])
    gone = s3.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    assert gone["DeleteMarker"] is True and gone["VersionId"] == marker["VersionId"]
    assert s3.head_object(Bucket=bucket, Key="k")["VersionId"] == ids[2]
    enable(s3, bucket, "Suspended")
    assert "VersionId" not in s3.put_object(Bucket=bucket, Key="k", Body=b"after")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"after"
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k, "VersionId": v} for k, v, _, _ in listed(s3, bucket)]})
    assert len(deleted["Deleted"]) == 4 and not deleted.get("Errors")
    assert listed(s3, bucket) == []


def test_multipart_of_versions(s3, bucket):
    enable(s3, bucket)
    old = s3.put_object(Bucket=bucket, Key="source", Body=pattern(5 << 20, 1))["VersionId"]
    s3.put_object(Bucket=bucket, Key="source", Body=b"new")
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    copied = s3.upload_part_copy(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, CopySource={"Bucket": bucket, "Key": "source", "VersionId": old})
    assert copied["CopySourceVersionId"] == old
    last = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=2, Body=b"tail")
    parts = [{"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]}, {"PartNumber": 2, "ETag": last["ETag"]}]
    made = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=made["VersionId"])["Body"].read() == pattern(5 << 20, 1) + b"tail"


def test_command_line(server, s3, bucket, tmp_path):
    def api(*words):
        return json.loads(server.aws("s3api", *words, "--bucket", bucket).stdout or "{}")

    api("put-bucket-versioning", "--versioning-configuration", "Status=Enabled")
    assert api("get-bucket-versioning") == {"Status": "Enabled"}
    for body in ("one", "two"):
        (tmp_path / "f").write_text(body)
        server.aws("s3", "cp", tmp_path / "f", f"s3://{bucket}/f")
    server.aws("s3", "rm", f"s3://{bucket}/f")
    versions = api("list-object-versions")
    assert len(versions["Versions"]) == 2 and len(versions["DeleteMarkers"]) == 1
    first = versions["Versions"][1]["VersionId"]
    api("get-object", "--key", "f", "--version-id", first, tmp_path / "got")
    assert (tmp_path / "got").read_text() == "one"
    api("put-bucket-tagging", "--tagging", "TagSet=[{Key=team,Value=a b}]")
    assert api("get-bucket-tagging") == {"TagSet": [{"Key": "team", "Value": "a b"}]}


# Responses of a bucket that was never configured: the members of the response, or the error code.
NEW = {
    "get_bucket_tagging": "NoSuchTagSet",
    "get_bucket_cors": "NoSuchCORSConfiguration",
    "get_bucket_policy": "NoSuchBucketPolicy",
    "get_bucket_policy_status": "NoSuchBucketPolicy",
    "get_bucket_website": "NoSuchWebsiteConfiguration",
    "get_bucket_replication": "ReplicationConfigurationNotFoundError",
    "get_bucket_accelerate_configuration": {},
    "get_bucket_logging": {},
    "get_bucket_notification_configuration": {},
    "get_bucket_request_payment": {"Payer": "BucketOwner"},
    "get_bucket_ownership_controls": {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}},
    "get_public_access_block": {"PublicAccessBlockConfiguration": {
        "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True}},
    "list_bucket_analytics_configurations": {"IsTruncated": False},
    "list_bucket_inventory_configurations": {"IsTruncated": False},
    "list_bucket_metrics_configurations": {"IsTruncated": False},
    "list_bucket_intelligent_tiering_configurations": {"IsTruncated": False},
}


@pytest.mark.parametrize("operation", NEW)
def test_documents_of_a_new_bucket(s3, bucket, operation):
    if isinstance(NEW[operation], str):
        with pytest.raises(ClientError) as e:
            getattr(s3, operation)(Bucket=bucket)
        assert error_of(e) == (NEW[operation], 404)
        return
    response = getattr(s3, operation)(Bucket=bucket)
    del response["ResponseMetadata"]
    assert response == NEW[operation]


def test_documents_are_stored(server, s3, bucket, tmp_path):
    name = bucket + "-tagged"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": [{"Key": "made", "Value": "with"}]})
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == [{"Key": "made", "Value": "with"}]
    block = {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": True, "RestrictPublicBuckets": False}
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=block)
    s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]})
    s3.put_bucket_accelerate_configuration(Bucket=name, AccelerateConfiguration={"Status": "Suspended"})
    s3.put_bucket_request_payment(Bucket=name, RequestPaymentConfiguration={"Payer": "BucketOwner"})
    s3.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration={})
    s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={})
    s3.put_bucket_acl(Bucket=name, ACL="private")
    assert s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"] == block
    assert s3.get_bucket_accelerate_configuration(Bucket=name)["Status"] == "Suspended"
    rules = [{"ID": "one", "AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example.com"], "AllowedHeaders": ["*"],
              "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": {
        "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/secret"}})
    s3.put_bucket_policy(Bucket=name, Policy=policy)
    assert s3.get_bucket_policy(Bucket=name)["Policy"] == policy
    assert s3.get_bucket_policy_status(Bucket=name)["PolicyStatus"] == {"IsPublic": False}
    s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": rules})
    assert s3.get_bucket_cors(Bucket=name)["CORSRules"] == rules
    preflight = server.http("OPTIONS", f"/{name}/key", headers={
        "Origin": "https://www.example.com", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-amz-date"})
    assert preflight.status == 200 and preflight.headers["Access-Control-Allow-Origin"] == "https://www.example.com"
    assert server.http("OPTIONS", f"/{name}/key", headers={"Origin": "https://example.com", "Access-Control-Request-Method": "PUT"}).status == 403
    s3.delete_bucket_cors(Bucket=name)
    s3.delete_bucket(Bucket=name)


def test_everything_is_recovered_from_the_blocks(start, tmp_path):
    """Versions, delete markers, null versions, tags and documents survive a kill, and the loss of the database."""
    def state(s3):
        versions = listed(s3, "kept", PaginationConfig={"PageSize": 7})
        bodies = {(k, v): s3.get_object(Bucket="kept", Key=k, VersionId=v)["Body"].read() for k, v, marker, _ in versions if not marker}
        return (versions, bodies, s3.get_bucket_versioning(Bucket="kept")["Status"], s3.get_bucket_tagging(Bucket="kept")["TagSet"],
                s3.get_public_access_block(Bucket="kept")["PublicAccessBlockConfiguration"])

    s = start(data=tmp_path / "d")
    s3 = s.client()
    s3.create_bucket(Bucket="kept", CreateBucketConfiguration={"Tags": [{"Key": "a", "Value": "b"}]})
    for number, status in enumerate((None, "Enabled", "Suspended", "Enabled")):
        if status:
            enable(s3, "kept", status)
        for k in range(12):
            s3.put_object(Bucket="kept", Key=f"k{k}", Body=pattern(3000 * k, number))
        for k in range(0, 12, 3):
            s3.delete_object(Bucket="kept", Key=f"k{k}")
    s3.put_public_access_block(Bucket="kept", PublicAccessBlockConfiguration={"BlockPublicAcls": True})
    s3.delete_bucket_ownership_controls(Bucket="kept")
    want = state(s3)
    assert len(want[0]) == 44  # twice 12 versions and 4 delete markers, and one null version of each key
    s3.close()
    for lost in (False, True):
        s.kill()
        if lost:
            for f in s.data.glob("metadata.db*"):
                f.unlink()
        s = start(data=s.data)
        s3 = s.client()
        assert state(s3) == want
        with pytest.raises(ClientError) as e:
            s3.get_bucket_ownership_controls(Bucket="kept")
        assert error_of(e) == ("OwnershipControlsNotFoundError", 404)
        s3.close()
    assert s.stop() == 0
