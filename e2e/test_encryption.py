"""Encryption at rest, as operators and clients see it: SSE-S3, bucket defaults, SSE-C over TLS, key rotation, and
operations on encrypted content that need no keys."""

import base64
import os
import secrets
import subprocess
import time

import botocore.exceptions
import pytest

from conftest import BINARY, HANG_SECONDS, error_of, pattern
from test_compression import record
from test_operations import Objects, admin, orcas

SECRET = b"text that must stay secret"
RULE = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}


def key():
    return secrets.token_hex(32)


def on_the_drive(data, *needles):
    """Returns the needles that occur in any file below data."""
    found = set()
    for f in data.rglob("*"):
        if f.is_file():
            content = f.read_bytes()
            found |= {n for n in needles if n in content}
    return found


def learn(server, objects):
    """Puts records until the server has trained a dictionary, and then some more, which are compressed with it."""
    s3 = server.client()
    for n in range(300):
        objects.put(s3, f"record/{n}", record(n))
    deadline = time.monotonic() + HANG_SECONDS
    while "compressed with a new dictionary" not in server.log:
        assert time.monotonic() < deadline, server.log
        time.sleep(0.02)
    for n in range(300, 330):
        objects.put(s3, f"record/{n}", record(n))


def refused(data, **env):
    """Tries to start a server, which must fail, and returns its output."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | env
    done = subprocess.run(
        [str(BINARY), "server", "--data", str(data), "--address", "127.0.0.1:0", "--admin-address", "none"],
        env=environ, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode in (1, 2), done.stdout + done.stderr  # 2: invalid environment variable
    return done.stdout + done.stderr


@pytest.fixture
def encrypted(start, tmp_path):
    """A server over TLS that has a master key, and encrypts content on request."""
    return start("--tls-self-signed", env={"ORCAS_MASTER_KEY": key(), "ORCAS_BUCKETS": "bucket"})


def test_sse_s3_and_bucket_default(encrypted):
    s3 = encrypted.client()
    small, large = SECRET, SECRET * 100_000
    for name, body in {"small": small, "large": large}.items():
        done = s3.put_object(Bucket="bucket", Key=name, Body=body, ServerSideEncryption="AES256")
        assert done["ServerSideEncryption"] == "AES256"
        got = s3.get_object(Bucket="bucket", Key=name)
        assert got["ServerSideEncryption"] == "AES256" and got["Body"].read() == body
        assert s3.head_object(Bucket="bucket", Key=name)["ServerSideEncryption"] == "AES256"
    part = s3.get_object(Bucket="bucket", Key="large", Range="bytes=1000000-1000025")["Body"].read()
    assert part == large[1_000_000:1_000_026]
    with pytest.raises(botocore.exceptions.ClientError) as info:
        s3.get_bucket_encryption(Bucket="bucket")
    assert error_of(info) == ("ServerSideEncryptionConfigurationNotFoundError", 404)
    with pytest.raises(botocore.exceptions.ClientError) as info:
        s3.put_object(Bucket="bucket", Key="k", Body=b"", ServerSideEncryption="aws:kms")
    assert error_of(info) == ("NotImplemented", 501)

    s3.put_bucket_encryption(Bucket="bucket", ServerSideEncryptionConfiguration=RULE)
    rule = s3.get_bucket_encryption(Bucket="bucket")["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert s3.put_object(Bucket="bucket", Key="by-default", Body=small)["ServerSideEncryption"] == "AES256"
    s3.upload_file(str(BINARY), "bucket", "binary")  # in parts
    assert s3.head_object(Bucket="bucket", Key="binary")["ServerSideEncryption"] == "AES256"
    assert s3.get_object(Bucket="bucket", Key="binary")["Body"].read() == BINARY.read_bytes()
    assert encrypted.stop() == 0
    assert not on_the_drive(encrypted.data, SECRET, BINARY.read_bytes()[1_000_000:1_000_100])


def test_sse_c(encrypted):
    s3 = encrypted.client()
    mine, other = secrets.token_bytes(32), secrets.token_bytes(32)
    with_mine = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": mine}
    with_other = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": other}
    body = SECRET * 20_000
    done = s3.put_object(Bucket="bucket", Key="k", Body=body, **with_mine)
    assert done["SSECustomerAlgorithm"] == "AES256" and done["SSECustomerKeyMD5"]
    got = s3.get_object(Bucket="bucket", Key="k", **with_mine)
    assert got["SSECustomerKeyMD5"] == done["SSECustomerKeyMD5"] and got["Body"].read() == body
    for call, want in [(s3.get_object, ("InvalidRequest", 400)), (s3.head_object, ("400", 400))]:
        with pytest.raises(botocore.exceptions.ClientError) as info:
            call(Bucket="bucket", Key="k")
        assert error_of(info) == want
    with pytest.raises(botocore.exceptions.ClientError) as info:
        s3.get_object(Bucket="bucket", Key="k", **with_other)
    assert error_of(info) == ("AccessDenied", 403)

    source = {"CopySourceSSECustomerAlgorithm": "AES256", "CopySourceSSECustomerKey": mine}
    s3.copy_object(Bucket="bucket", Key="theirs", CopySource="bucket/k", **source, **with_other)
    assert s3.get_object(Bucket="bucket", Key="theirs", **with_other)["Body"].read() == body

    upload = s3.create_multipart_upload(Bucket="bucket", Key="parts", **with_mine)["UploadId"]
    bodies = [pattern(5 << 20), pattern(5 << 20, 1)]
    parts = []
    for n, b in enumerate(bodies, 1):
        etag = s3.upload_part(Bucket="bucket", Key="parts", UploadId=upload, PartNumber=n, Body=b, **with_mine)["ETag"]
        parts.append({"PartNumber": n, "ETag": etag})
    copied = s3.upload_part_copy(
        Bucket="bucket", Key="parts", UploadId=upload, PartNumber=3, CopySource="bucket/k", CopySourceRange="bytes=5-99", **source, **with_mine)
    parts.append({"PartNumber": 3, "ETag": copied["CopyPartResult"]["ETag"]})
    s3.complete_multipart_upload(Bucket="bucket", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts}, **with_mine)
    assert s3.get_object(Bucket="bucket", Key="parts", **with_mine)["Body"].read() == b"".join(bodies) + body[5:100]

    url = s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "k"})
    assert encrypted.http("GET", url).status == 400
    assert encrypted.stop() == 0
    assert not on_the_drive(encrypted.data, SECRET, mine, other)
    assert base64.b64encode(mine).decode() not in encrypted.log + encrypted.banner


def test_sse_c_needs_tls(start):
    s = start(env={"ORCAS_BUCKETS": "bucket"})
    with_key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": secrets.token_bytes(32)}
    with pytest.raises(Exception) as info:  # either boto3 or the server refuses
        s.client().put_object(Bucket="bucket", Key="k", Body=b"x", **with_key)
    assert "secure" in str(info.value).lower() or "https" in str(info.value).lower() or "InvalidRequest" in str(info.value)
    assert "Contents" not in s.client().list_objects_v2(Bucket="bucket")


def test_keys_and_rotation(start, tmp_path):
    data, old, new = tmp_path / "d", key(), key()
    file = tmp_path / "keys"

    def keys(*lines):
        file.write_text("".join(line + "\n" for line in lines))
        file.chmod(0o600)
        return {"ORCAS_MASTER_KEY_FILE": str(file), "ORCAS_ENCRYPTION": "all", "ORCAS_COMPRESSION": "better"}

    s = start("--admin-address", "127.0.0.1:0", data=data, env=keys(f"1:{old}"))
    objects = Objects(s)
    objects.churn(s, 0)
    objects.put(s.client(), "secret", SECRET * 10)
    learn(s, objects)
    assert s.stop() == 0

    said = refused(data)
    assert "ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY" in said and "master key 1" in said
    said = refused(data, **keys(f"1:{new}"))
    assert "ORCAS_MASTER_KEY_FILE" in said and "has the wrong value" in said and new not in said
    file.chmod(0o644)
    assert "0644" in refused(data, ORCAS_MASTER_KEY_FILE=str(file))
    assert "ORCAS_ENCRYPTION" in refused(data, ORCAS_ENCRYPTION="all")

    s = start("--admin-address", "127.0.0.1:0", data=data, env=keys(f"2:{new}", f"1:{old}"))
    objects.check(s)
    said = orcas(s, "admin", "keys", "rotate", "--wait", "--admin-address", admin(s)).stdout
    assert "can be removed: 1" in said and "wrapped with master key 2" in said
    objects.check(s)
    assert s.stop() == 0
    assert "master key 2" in refused(data, **keys(f"1:{old}"))
    s = start("--admin-address", "127.0.0.1:0", data=data, env=keys(f"2:{new}"))
    said = orcas(s, "admin", "keys", "status", "--admin-address", admin(s)).stdout
    assert "needs: 2" in said
    objects.check(s)
    assert s.stop() == 0
    assert not on_the_drive(data, SECRET, b"insulated", old.encode(), new.encode(), bytes.fromhex(old), bytes.fromhex(new))


@pytest.mark.parametrize("compression", ["off", "better"])
def test_operations_without_keys(start, tmp_path, compression):
    """fsck, scrub, reclaim, backup, restore and rebuild work on encrypted content."""
    data = tmp_path / "d"
    env = {"ORCAS_MASTER_KEY": key(), "ORCAS_ENCRYPTION": "all", "ORCAS_COMPRESSION": compression}
    s = start("--admin-address", "127.0.0.1:0", data=data, env=env)
    objects = Objects(s)
    for turn in range(3):
        objects.churn(s, turn)
    if compression != "off":
        learn(s, objects)
    orcas(s, "admin", "reclaim", "--wait", "--admin-address", admin(s))
    objects.check(s)
    assert "damaged: 0" in orcas(s, "admin", "scrub", "--wait", "--admin-address", admin(s)).stdout
    assert s.stop() == 0

    orcas(s, "fsck", "--data", data, "--content")
    orcas(s, "backup", "--data", data, tmp_path / "backups")
    orcas(s, "restore", tmp_path / "backups", "--data", tmp_path / "restored")
    (data / "metadata.db").unlink()
    orcas(s, "rebuild", "--data", data)
    for place in (data, tmp_path / "restored"):
        assert "master key 1" in refused(place)
        s = start("--admin-address", "127.0.0.1:0", data=place, env=env)
        objects.check(s)
        orcas(s, "admin", "fsck", "--content", "--admin-address", admin(s))
        assert s.stop() == 0
