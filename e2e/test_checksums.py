"""Integrity: what SDKs send by default, every algorithm that boto3 offers, and what is wrong must change nothing."""

import base64
import hashlib
import zlib

import pytest
from botocore.exceptions import ClientError

from conftest import error_of, pattern

# As boto3 names them; those below the line need its optional C library, which the suite installs.
ALGORITHMS = ["CRC32", "SHA1", "SHA256", "SHA512",
              "CRC32C", "CRC64NVME", "XXHASH64", "XXHASH3", "XXHASH128"]
ZLIB = lambda body: base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [0, 1000, 300_000])
def test_put_with_each_algorithm(s3, bucket, algorithm, size):
    """Over HTTP boto3 sends a header, over TLS a trailer of a chunked body."""
    body = pattern(size)
    field = "Checksum" + algorithm
    answer = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    assert answer[field], answer
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[field] == answer[field]
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")  # boto3 compares at the end of the body
    assert got["Body"].read() == body and got[field] == answer[field]
    assert field not in s3.head_object(Bucket=bucket, Key="k")
    if algorithm.startswith("SHA"):
        assert answer[field] == base64.b64encode(hashlib.new(algorithm, body).digest()).decode()


def test_default_checksum(s3, bucket):
    body = pattern(5000)
    assert s3.put_object(Bucket=bucket, Key="k", Body=body)["ChecksumCRC32"] == ZLIB(body)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == ZLIB(body) and head["ChecksumType"] == "FULL_OBJECT"


def test_none_sent_is_one_computed(server, bucket):
    client = server.client(config={"request_checksum_calculation": "when_required"})
    body = pattern(5000)
    client.put_object(Bucket=bucket, Key="k", Body=body)
    head = client.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC64NVME"] and head["ChecksumType"] == "FULL_OBJECT"


@pytest.mark.parametrize("field,value,code", [
    ("ChecksumCRC32", "AAAAAA==", "BadDigest"),
    ("ChecksumSHA256", base64.b64encode(bytes(32)).decode(), "BadDigest"),
    ("ChecksumSHA1", "bm90IGEgc2hhMQ==", "InvalidRequest"),
    ("ContentMD5", base64.b64encode(bytes(16)).decode(), "BadDigest"),
    ("ContentMD5", "c2hvcnQ=", "InvalidDigest"),
])
@pytest.mark.parametrize("size", [1000, 300_000])
def test_wrong_checksums_change_nothing(s3, bucket, field, value, code, size):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k", Body=pattern(size), **{field: value})
    assert error_of(info) == (code, 400)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


@pytest.mark.parametrize("algorithm,kind", [("CRC32", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT"), ("CRC32C", "COMPOSITE"), ("SHA256", "COMPOSITE")])
def test_multipart_checksums(s3, bucket, algorithm, kind):
    field = "Checksum" + algorithm
    bodies = [pattern(5 << 20, 1), pattern(5 << 20, 2), pattern(99, 3)]
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
    parts = []
    for number, body in enumerate(bodies, 1):
        answer = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
        parts.append({"PartNumber": number, "ETag": answer["ETag"], field: answer[field]})
    wrong = [dict(parts[0], **{field: parts[1][field]})] + parts[1:]
    with pytest.raises(ClientError) as info:
        s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": wrong}, ChecksumType=kind)
    assert error_of(info)[1] == 400
    answer = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts}, ChecksumType=kind)
    assert answer["ChecksumType"] == kind
    if kind == "COMPOSITE":
        assert answer[field].endswith("-3")
        if algorithm == "SHA256":
            of_parts = b"".join(hashlib.sha256(b).digest() for b in bodies)
            assert answer[field] == base64.b64encode(hashlib.sha256(of_parts).digest()).decode() + "-3"
    elif algorithm == "CRC32":
        assert answer[field] == ZLIB(b"".join(bodies))
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got[field] == answer[field] and got["ChecksumType"] == kind
    assert got["Body"].read() == b"".join(bodies)


def test_copy_computes_another(s3, bucket):
    body = pattern(100_000)
    s3.put_object(Bucket=bucket, Key="from", Body=body)
    answer = s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"}, ChecksumAlgorithm="SHA256")
    assert answer["CopyObjectResult"]["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(body).digest()).decode()
    s3.copy_object(Bucket=bucket, Key="same", CopySource={"Bucket": bucket, "Key": "from"})
    assert s3.head_object(Bucket=bucket, Key="same", ChecksumMode="ENABLED")["ChecksumCRC32"] == ZLIB(body)
