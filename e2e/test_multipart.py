"""Multipart uploads with boto3."""

import hashlib
import io

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from conftest import error_of, pattern

MIB = 1 << 20


def upload(s3, bucket, key, parts, **more):
    """Uploads parts (a dict of number to body) and completes the upload; returns the response to the completion."""
    uid = s3.create_multipart_upload(Bucket=bucket, Key=key, **more)["UploadId"]
    done = []
    for number, body in parts.items():
        response = s3.upload_part(Bucket=bucket, Key=key, UploadId=uid, PartNumber=number, Body=body)
        done.append({"PartNumber": number, "ETag": response["ETag"]})
    return s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=uid, MultipartUpload={"Parts": done})


def etag_of(bodies):
    sums = b"".join(hashlib.md5(b).digest() for b in bodies)
    return f'"{hashlib.md5(sums).hexdigest()}-{len(bodies)}"'


def test_parts_become_one_object(s3, bucket):
    parts = {1: pattern(5 * MIB, 1), 3: pattern(6 * MIB + 1, 3), 10000: pattern(17, 4)}
    response = upload(s3, bucket, "k", parts, ContentType="text/x-parts", Metadata={"a": "b"}, CacheControl="no-store")
    body = b"".join(parts.values())
    assert response["ETag"] == etag_of(list(parts.values())) and response["Bucket"] == bucket and response["Key"] == "k"
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == body
    assert (got["ETag"], got["ContentType"], got["Metadata"], got["CacheControl"]) == (response["ETag"], "text/x-parts", {"a": "b"}, "no-store")
    for start, end in ((0, 1), (5 * MIB - 1, 5 * MIB + 1), (11 * MIB, len(body)), (3 * MIB, 11 * MIB + 5)):
        got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={start}-{end - 1}")
        assert got["Body"].read() == body[start:end]
    part = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert part["Body"].read() == parts[3] and part["PartsCount"] == 3
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [(o["Key"], o["Size"], o["ETag"]) for o in listed] == [("k", len(body), response["ETag"])]


def test_parts_in_any_order_and_replaced(s3, bucket):
    bodies = {n: pattern(5 * MIB, n) for n in (1, 2)}
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    put = lambda n, body: s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=n, Body=body)["ETag"]
    second = put(2, bodies[2])
    put(1, b"to be replaced")
    first = put(1, bodies[1])
    listed = s3.list_parts(Bucket=bucket, Key="k", UploadId=uid)
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in listed["Parts"]] == [(1, 5 * MIB, first), (2, 5 * MIB, second)]
    page = s3.list_parts(Bucket=bucket, Key="k", UploadId=uid, MaxParts=1)
    assert page["IsTruncated"] and page["NextPartNumberMarker"] == 1
    page = s3.list_parts(Bucket=bucket, Key="k", UploadId=uid, PartNumberMarker=1)
    assert [p["PartNumber"] for p in page["Parts"]] == [2] and not page["IsTruncated"]
    parts = [{"PartNumber": 1, "ETag": first}, {"PartNumber": 2, "ETag": second}]
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == bodies[1] + bodies[2]


def test_errors_do_not_change_the_key(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    e1 = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"small")["ETag"]
    e2 = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=2, Body=b"last")["ETag"]

    def complete(parts, uid=uid):
        return s3.complete_multipart_upload(
            Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": [{"PartNumber": n, "ETag": e} for n, e in parts]})

    for parts, code in (([(1, e1), (2, e2)], "EntityTooSmall"), ([(2, e2), (1, e1)], "InvalidPartOrder"),
                        ([(1, e2)], "InvalidPart"), ([(3, e1)], "InvalidPart"), ([], "MalformedXML")):
        with pytest.raises(ClientError) as info:
            complete(parts)
        assert error_of(info) == (code, 400), parts
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"
    for number in (0, 10001):
        with pytest.raises(ClientError) as info:
            s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=number, Body=b"x")
        assert error_of(info) == ("InvalidArgument", 400)
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=uid)
    for call in (lambda: complete([(1, e1)]), lambda: s3.list_parts(Bucket=bucket, Key="k", UploadId=uid),
                 lambda: s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"x"),
                 lambda: complete([(1, e1)], uid="nonsense")):
        with pytest.raises(ClientError) as info:
            call()
        assert error_of(info) == ("NoSuchUpload", 404)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


def test_copied_parts(s3, bucket):
    source = pattern(11 * MIB, 5)
    s3.put_object(Bucket=bucket, Key="src", Body=source)
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]

    def copy(number, **more):
        return {"PartNumber": number, "ETag": s3.upload_part_copy(
            Bucket=bucket, Key="k", UploadId=uid, PartNumber=number, CopySource={"Bucket": bucket, "Key": "src"},
            **more)["CopyPartResult"]["ETag"]}

    parts = [copy(1), copy(2, CopySourceRange=f"bytes=1-{5 * MIB}")]
    tail = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=3, Body=b"tail")
    parts.append({"PartNumber": 3, "ETag": tail["ETag"]})
    with pytest.raises(ClientError) as info:
        copy(4, CopySourceRange=f"bytes=0-{len(source)}")
    assert error_of(info)[1] in (400, 416)
    s3.delete_object(Bucket=bucket, Key="src")
    expected = [source, source[1:5 * MIB + 1], b"tail"]
    assert [p["ETag"] for p in parts] == [f'"{hashlib.md5(b).hexdigest()}"' for b in expected]
    response = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": parts})
    assert response["ETag"] == etag_of(expected)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"".join(expected)


def test_list_uploads(s3, bucket):
    keys = ["a/1", "a/2", "b", "b", "c"]
    uids = {s3.create_multipart_upload(Bucket=bucket, Key=k)["UploadId"] for k in keys}
    listed = s3.list_multipart_uploads(Bucket=bucket)
    assert [u["Key"] for u in listed["Uploads"]] == keys and {u["UploadId"] for u in listed["Uploads"]} == uids
    listed = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [u["Key"] for u in listed["Uploads"]] == ["b", "b", "c"] and listed["CommonPrefixes"] == [{"Prefix": "a/"}]
    assert [u["Key"] for u in s3.list_multipart_uploads(Bucket=bucket, Prefix="a/")["Uploads"]] == ["a/1", "a/2"]
    paged = [u["Key"] for p in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
             for u in p["Uploads"]]
    assert paged == keys
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    s3.delete_bucket(Bucket=bucket)  # uploads in progress do not prevent the deletion, and are deleted too
    s3.create_bucket(Bucket=bucket)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_conditional_complete(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    uid = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"after")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    with pytest.raises(ClientError) as info:
        s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload=parts, IfNoneMatch="*")
    assert error_of(info) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload=parts)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"after"


def test_transfer_manager(s3, bucket):
    body = pattern(64 * MIB + 12345, 9)
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=8)
    s3.upload_fileobj(io.BytesIO(body), bucket, "big", Config=config)
    assert s3.head_object(Bucket=bucket, Key="big")["ETag"].endswith('-9"')
    out = io.BytesIO()
    s3.download_fileobj(bucket, "big", out, Config=config)
    assert out.getvalue() == body
    s3.copy({"Bucket": bucket, "Key": "big"}, bucket, "copy", Config=config)
    out = io.BytesIO()
    s3.download_fileobj(bucket, "copy", out, Config=config)
    assert out.getvalue() == body
