"""Integrity: the checksums that SDKs send by default, every algorithm of boto3, and wrong checksums, which must change
nothing."""

import base64
import hashlib
import zlib

import pytest
from botocore import httpchecksum
from botocore.exceptions import ClientError

from conftest import error_of, pattern

# Names as in boto3; those on the second line need its optional C library, which the suite installs.
ALGORITHMS = ["CRC32", "SHA1", "SHA256", "SHA512",
              "CRC32C", "CRC64NVME", "XXHASH64", "XXHASH3", "XXHASH128"]
ZLIB = lambda body: base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [0, 1000, 300_000])
def test_put_with_each_algorithm(s3, bucket, algorithm, size):
    """boto3 sends the checksum in a header over HTTP, and in the trailer of a chunked body over TLS."""
    body = pattern(size)
    field = "Checksum" + algorithm
    response = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    assert response[field], response
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[field] == response[field]
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")  # boto3 compares at the end of the body
    assert got["Body"].read() == body and got[field] == response[field]
    assert field not in s3.head_object(Bucket=bucket, Key="k")
    if algorithm.startswith("SHA"):
        assert response[field] == base64.b64encode(hashlib.new(algorithm, body).digest()).decode()


def test_default_checksum(s3, bucket):
    body = pattern(5000)
    assert s3.put_object(Bucket=bucket, Key="k", Body=body)["ChecksumCRC32"] == ZLIB(body)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == ZLIB(body) and head["ChecksumType"] == "FULL_OBJECT"


def test_server_computes_a_missing_checksum(server, bucket):
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


COMBINED = ["CRC32", "CRC32C", "CRC64NVME"]
KINDS = [(a, "FULL_OBJECT") for a in COMBINED] + [(a, "COMPOSITE") for a in ALGORITHMS if a != "CRC64NVME"] + [(a, None) for a in ALGORITHMS]


def upload(s3, bucket, bodies, algorithm=None, kind=None, key="k"):
    """Uploads the parts. Returns the ID of the upload and the list of parts for CompleteMultipartUpload."""
    begun = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    response = s3.create_multipart_upload(Bucket=bucket, Key=key, **begun, **({"ChecksumType": kind} if kind else {}))
    if algorithm:
        assert response["ChecksumAlgorithm"] == algorithm and response["ChecksumType"] == kind_of(algorithm, kind)
    parts = []
    for number, body in enumerate(bodies, 1):
        part = s3.upload_part(Bucket=bucket, Key=key, UploadId=response["UploadId"], PartNumber=number, Body=body, **begun)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
        if algorithm:
            parts[-1]["Checksum" + algorithm] = part["Checksum" + algorithm]
    return response["UploadId"], parts


def kind_of(algorithm, kind):
    return kind or ("FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE")


def digest(algorithm, body):
    """Returns the checksum as the SDK computes it."""
    checksum = httpchecksum._CHECKSUM_CLS[algorithm.lower()]()
    checksum.update(body)
    return checksum.b64digest()


@pytest.mark.parametrize("algorithm,kind", KINDS)
def test_multipart_checksums(s3, bucket, algorithm, kind):
    field = "Checksum" + algorithm
    bodies = [pattern(5 << 20, 1), pattern(5 << 20, 2), pattern(99, 3)]
    whole = b"".join(bodies)
    uid, parts = upload(s3, bucket, bodies, algorithm, kind)
    kind = kind_of(algorithm, kind)
    assert [p[field] for p in parts] == [digest(algorithm, b) for b in bodies]
    listed = s3.list_parts(Bucket=bucket, Key="k", UploadId=uid)
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, kind)
    assert [p[field] for p in listed["Parts"]] == [p[field] for p in parts]

    def complete(parts, **more):
        return s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts}, **more)

    def refused(code, parts=parts, **more):
        with pytest.raises(ClientError) as info:
            complete(parts, **more)
        assert error_of(info) == (code, 400)

    refused("InvalidPart", [dict(parts[0], **{field: parts[1][field]})] + parts[1:])
    refused("InvalidArgument", [dict(parts[0], **{field: "bm8="})] + parts[1:])
    refused("InvalidRequest", ChecksumType={"COMPOSITE": "FULL_OBJECT", "FULL_OBJECT": "COMPOSITE"}[kind])
    refused("InvalidRequest", MpuObjectSize=len(whole) - 1)
    refused("BadDigest", **{field: parts[0][field]})
    if kind == "COMPOSITE":
        of_parts = b"".join(base64.b64decode(p[field]) for p in parts)
        want = digest(algorithm, of_parts) + "-3"
        refused("InvalidRequest", [{k: v for k, v in p.items() if k != field} for p in parts])
    else:
        want = digest(algorithm, whole)
    response = complete(parts, ChecksumType=kind, MpuObjectSize=len(whole), **{field: want})
    assert (response[field], response["ChecksumType"]) == (want, kind)
    again = complete(parts, ChecksumType=kind, MpuObjectSize=len(whole), **{field: want})  # as if the response had been lost
    assert (again["ETag"], again[field]) == (response["ETag"], want)
    part = s3.get_object(Bucket=bucket, Key="k", PartNumber=2, ChecksumMode="ENABLED")
    assert part["Body"].read() == bodies[1] and part.get(field) == (digest(algorithm, bodies[1]) if kind == "COMPOSITE" else None)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (got[field], got["ChecksumType"]) == (want, kind)
    assert got["Body"].read() == whole
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == ([algorithm], kind)
    attributes = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum", "ObjectParts", "ETag", "ObjectSize", "StorageClass"])
    assert attributes["Checksum"] == {field: want.removesuffix("-3"), "ChecksumType": kind}
    assert attributes["ETag"] == got["ETag"].strip('"') and attributes["ObjectSize"] == len(whole) and attributes["StorageClass"] == "STANDARD"
    assert attributes["ObjectParts"]["Parts"] == [{"PartNumber": i, "Size": len(b), field: digest(algorithm, b)} for i, b in enumerate(bodies, 1)]
    copied = s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"}, ChecksumAlgorithm=algorithm)
    assert copied["CopyObjectResult"][field] == digest(algorithm, whole)
    assert copied["CopyObjectResult"]["ChecksumType"] == "FULL_OBJECT"


def test_multipart_without_a_checksum(server, bucket):
    client = server.client(config={"request_checksum_calculation": "when_required"})
    bodies = [pattern(5 << 20, 1), pattern(99, 3)]
    uid, parts = upload(client, bucket, bodies)
    response = client.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts})
    assert response["ChecksumCRC64NVME"] == digest("CRC64NVME", b"".join(bodies)) and response["ChecksumType"] == "FULL_OBJECT"
    # If the upload has no algorithm, a part gets the default checksum, and a copied part gets none.
    uid = client.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    assert client.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"x")["ChecksumCRC64NVME"] == digest("CRC64NVME", b"x")
    copied = client.upload_part_copy(Bucket=bucket, Key="k", UploadId=uid, PartNumber=2, CopySource={"Bucket": bucket, "Key": "k"})
    assert not [name for name in copied["CopyPartResult"] if name.startswith("Checksum")]
    # The parts of an upload with a composite checksum must have checksums; for a full-object checksum the server
    # computes them.
    uid = client.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")["UploadId"]
    with pytest.raises(ClientError) as info:
        client.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"x")
    assert error_of(info) == ("InvalidRequest", 400)
    uid = client.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")["UploadId"]
    part = client.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"x")
    assert part["ChecksumCRC32"] == digest("CRC32", b"x")


def test_parts_of_an_object(s3, bucket):
    bodies = [pattern(5 << 20, 1), pattern(6 << 20, 2), pattern(99, 3)]
    uid, parts = upload(s3, bucket, bodies, "SHA256")
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts})
    at = 0
    for number, body in enumerate(bodies, 1):
        got = s3.get_object(Bucket=bucket, Key="k", PartNumber=number, ChecksumMode="ENABLED")
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206 and got["PartsCount"] == 3
        assert got["ContentRange"] == f"bytes {at}-{at + len(body) - 1}/{sum(map(len, bodies))}"
        assert got["Body"].read() == body
        head = s3.head_object(Bucket=bucket, Key="k", PartNumber=number)
        assert head["ContentLength"] == len(body) and head["PartsCount"] == 3
        at += len(body)
    with pytest.raises(ClientError) as info:
        s3.get_object(Bucket=bucket, Key="k", PartNumber=4)
    assert error_of(info) == ("InvalidPartNumber", 416)
    with pytest.raises(ClientError) as info:
        s3.get_object(Bucket=bucket, Key="k", PartNumber=1, Range="bytes=0-1")
    assert error_of(info) == ("InvalidRequest", 400)
    pages = []
    marker = 0
    while True:
        page = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectParts"], MaxParts=2, PartNumberMarker=marker)["ObjectParts"]
        assert page["TotalPartsCount"] == 3 and page["MaxParts"] == 2
        pages.append([p["Size"] for p in page["Parts"]])
        if not page["IsTruncated"]:
            break
        marker = page["NextPartNumberMarker"]
    assert pages == [[len(bodies[0]), len(bodies[1])], [len(bodies[2])]]
    with pytest.raises(ClientError) as info:
        s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ETags"])
    assert error_of(info) == ("InvalidArgument", 400)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_copied_part(s3, bucket, algorithm):
    body = pattern(6 << 20)
    s3.put_object(Bucket=bucket, Key="from", Body=body)
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm)["UploadId"]
    parts = []
    for number, (first, last) in enumerate([(0, len(body) - 1), (5, 1000)], 1):
        part = s3.upload_part_copy(Bucket=bucket, Key="k", UploadId=uid, PartNumber=number,
                                   CopySource={"Bucket": bucket, "Key": "from"}, CopySourceRange=f"bytes={first}-{last}")["CopyPartResult"]
        assert part["Checksum" + algorithm] == digest(algorithm, body[first:last + 1])
        parts.append({"PartNumber": number, "ETag": part["ETag"], "Checksum" + algorithm: part["Checksum" + algorithm]})
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body + body[5:1001]


def test_copy_computes_another_checksum(s3, bucket):
    body = pattern(100_000)
    s3.put_object(Bucket=bucket, Key="from", Body=body)
    response = s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"}, ChecksumAlgorithm="SHA256")
    assert response["CopyObjectResult"]["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(body).digest()).decode()
    s3.copy_object(Bucket=bucket, Key="same", CopySource={"Bucket": bucket, "Key": "from"})
    assert s3.head_object(Bucket=bucket, Key="same", ChecksumMode="ENABLED")["ChecksumCRC32"] == ZLIB(body)
