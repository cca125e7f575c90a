"""Quotas of buckets: they are set by a request that boto3 does not support, limit what boto3 and aws-cli can write, and
survive restarts, crashes and rebuilds."""

import re
import threading

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
import urllib3
from botocore.exceptions import ClientError

from conftest import REGION, error_of, pattern
from test_operations import admin, orcas

DOCUMENT = '<QuotaConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</QuotaConfiguration>'


@pytest.fixture
def server(start):
    return start("--admin-address", "127.0.0.1:0")


def quota(server, method, bucket, body=""):
    """Sends a signed request for ?quota. Returns the status and the body of the response."""
    request = botocore.awsrequest.AWSRequest(method, f"{server.endpoint}/{bucket}?quota", data=body.encode())
    who = botocore.credentials.Credentials(server.access, server.secret)
    botocore.auth.S3SigV4Auth(who, "s3", REGION).add_auth(request)
    with urllib3.PoolManager() as pool:
        response = pool.request(method, request.url, body=body.encode(), headers=dict(request.headers.items()), retries=False)
    return response.status, response.data.decode()


def limit(server, bucket, **bounds):
    assert quota(server, "PUT", bucket, DOCUMENT % "".join(f"<{k}>{v}</{k}>" for k, v in bounds.items())) == (200, "")


def held(server, bucket):
    status, text = quota(server, "GET", bucket)
    assert status == 200, text
    return tuple(map(int, re.search(r"<Usage><Bytes>(\d+)</Bytes><Objects>(\d+)</Objects></Usage>", text).groups()))


def refused(call, **arguments):
    with pytest.raises(ClientError) as info:
        call(**arguments)
    assert error_of(info) == ("QuotaExceeded", 403)
    return info.value.response["Error"]["Message"]


def test_a_bucket_is_filled_and_emptied(server):
    s3 = server.client(config={"retries": {"total_max_attempts": 5}})
    s3.create_bucket(Bucket="bucket")
    assert quota(server, "GET", "bucket")[0] == 404
    limit(server, "bucket", MaxBytes=100_000, MaxObjects=20)
    for n in range(9):
        s3.put_object(Bucket="bucket", Key=f"{n}", Body=pattern(10_000, seed=n))
    assert held(server, "bucket") == (90_000, 9)
    assert "90000 of 100000 bytes are in use, and the request adds 10001" in refused(s3.put_object, Bucket="bucket", Key="x", Body=pattern(10_001))
    assert server.log.count('"PutObject"') <= 11, "clients must not retry a refused request"
    s3.put_object(Bucket="bucket", Key="9", Body=pattern(10_000))
    refused(s3.put_object, Bucket="bucket", Key="x", Body=b"x")
    refused(s3.copy_object, Bucket="bucket", Key="x", CopySource="bucket/1")
    upload = s3.create_multipart_upload(Bucket="bucket", Key="x")["UploadId"]
    refused(s3.upload_part, Bucket="bucket", Key="x", UploadId=upload, PartNumber=1, Body=pattern(6 << 20))
    s3.abort_multipart_upload(Bucket="bucket", Key="x", UploadId=upload)
    done = server.aws("s3", "cp", "-", "s3://bucket/x", check=False, input="some text\n")
    assert done.returncode != 0 and "QuotaExceeded" in done.stderr
    s3.delete_object(Bucket="bucket", Key="0")
    server.aws("s3", "cp", "-", "s3://bucket/x", input="some text\n")
    s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": f"{n}"} for n in range(1, 5)]})
    assert held(server, "bucket") == (50_010, 6)
    s3.put_object(Bucket="bucket", Key="y", Body=pattern(49_990))
    assert quota(server, "DELETE", "bucket") == (204, "")
    s3.put_object(Bucket="bucket", Key="z", Body=pattern(1 << 20))


def test_concurrent_writers_fill_the_quota_exactly(server):
    s3 = server.client(config={"max_pool_connections": 64})
    s3.create_bucket(Bucket="bucket")
    limit(server, "bucket", MaxBytes=170_999)
    stored, ready = [], threading.Barrier(64)

    def write(n):
        ready.wait()
        try:
            s3.put_object(Bucket="bucket", Key=f"{n}", Body=pattern(10_000, seed=n))
            stored.append(f"{n}")
        except ClientError as e:
            assert e.response["Error"]["Code"] == "QuotaExceeded"

    threads = [threading.Thread(target=write, args=(n,)) for n in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(stored) == 17 and held(server, "bucket") == (170_000, 17)
    assert sorted(o["Key"] for o in s3.list_objects_v2(Bucket="bucket")["Contents"]) == sorted(stored)


def test_quota_survives_kills_and_rebuilds(start, tmp_path):
    s = start("--admin-address", "127.0.0.1:0", data=tmp_path / "d")
    s3 = s.client()
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="before", Body=pattern(5000))
    said = orcas(s, "admin", "bucket", "bucket", "--max-bytes", "30000", "--max-objects", "10", "--admin-address", admin(s)).stdout
    assert said == "bucket: compression default, chunks of 4MiB, quota: 5000 of 30000 bytes, 1 of 10 objects, public access: none\n" \
        "bucket: 1 object (4.9 KiB), 0 noncurrent versions (0 bytes), 0 unfinished uploads (0 bytes)\n"
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    for n in range(4):
        s3.put_object(Bucket="bucket", Key="key", Body=pattern(5000, seed=n))
    s3.delete_object(Bucket="bucket", Key="key")
    upload = s3.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
    s3.upload_part(Bucket="bucket", Key="parts", UploadId=upload, PartNumber=1, Body=pattern(4000))
    for how in "a kill", "a lost database", "a rebuild":
        assert held(s, "bucket") == (29_000, 5)
        refused(s.client().put_object, Bucket="bucket", Key="x", Body=pattern(1001))
        s.kill()
        if how != "a kill":
            for f in s.data.glob("metadata.db*"):
                f.unlink()
        if how == "a rebuild":
            orcas(s, "rebuild", "--data", s.data)
            orcas(s, "fsck", "--data", s.data)
        s = start("--admin-address", "127.0.0.1:0", data=s.data)
        orcas(s, "admin", "fsck", "--admin-address", admin(s))
    s.client().put_object(Bucket="bucket", Key="x", Body=pattern(1000))
    assert held(s, "bucket") == (30_000, 6)
    assert "no quota" in orcas(s, "admin", "bucket", "bucket", "--max-bytes", "none", "--max-objects", "none", "--admin-address", admin(s)).stdout
    assert quota(s, "GET", "bucket")[0] == 404
    assert s.stop() == 0
