"""Objects, with boto3: bodies, headers, ranges, conditions, copies, deletes."""

import datetime
import hashlib
import io

import pytest
from botocore.exceptions import ClientError

from conftest import error_of, pattern

SIZES = [0, 1, 4096, 65535, 65536, 65537, 262143, 262144, 262145, 1 << 20, (4 << 20) - 1, (4 << 20) + 1, 20 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_round_trip(s3, bucket, size):
    body = pattern(size, size)
    etag = '"' + hashlib.md5(body).hexdigest() + '"'
    assert s3.put_object(Bucket=bucket, Key="k", Body=body)["ETag"] == etag
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentLength"] == size and got["ETag"] == etag
    assert got["Body"].read() == body
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentLength"], head["ETag"], head["AcceptRanges"]) == (size, etag, "bytes")
    age = datetime.datetime.now(datetime.timezone.utc) - head["LastModified"]
    assert abs(age.total_seconds()) < 300


def test_overwrite(s3, bucket):
    for size in (10, 100_000, 0, 7):
        s3.put_object(Bucket=bucket, Key="k", Body=pattern(size, size))
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == pattern(size, size)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


def test_unknown_length(s3, bucket):
    """The transfer manager (upload_fileobj) uploads a stream that is not seekable."""
    body = pattern(9 << 20)

    class Stream(io.RawIOBase):
        def __init__(self):
            self.inner = io.BytesIO(body)

        def readable(self):
            return True

        def readinto(self, b):
            return self.inner.readinto(b)

    s3.upload_fileobj(Stream(), bucket, "stream")
    out = io.BytesIO()
    s3.download_fileobj(bucket, "stream", out)
    assert out.getvalue() == body


@pytest.mark.parametrize("size", [10, 70_000, 5 << 20])
def test_ranges(s3, bucket, size):
    body = pattern(size)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    for spec, (start, end) in {
        "bytes=0-0": (0, 1), "bytes=3-6": (3, 7), "bytes=5-": (5, size), "bytes=-4": (size - 4, size),
        f"bytes=0-{size + 100}": (0, size), f"bytes=-{size + 1}": (0, size), f"bytes={size - 1}-": (size - 1, size),
        f"bytes={size // 2}-{size // 2 + 2}": (size // 2, size // 2 + 3),
    }.items():
        got = s3.get_object(Bucket=bucket, Key="k", Range=spec)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206, spec
        assert got["ContentRange"] == f"bytes {start}-{end - 1}/{size}", spec
        assert got["Body"].read() == body[start:end], spec
    with pytest.raises(ClientError) as info:
        s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={size}-")
    assert error_of(info) == ("InvalidRange", 416)


def test_metadata_and_system_headers(s3, bucket):
    expires = datetime.datetime(2031, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)
    sent = dict(
        CacheControl="max-age=60, public", ContentDisposition='attachment; filename="a b.txt"', ContentEncoding="gzip",
        ContentLanguage="de", ContentType="text/plain; charset=utf-8", Expires=expires,
        Metadata={"colour": "blue", "with-dash": "a, b;c=d", "empty": ""})
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", **sent)
    for got in (s3.head_object(Bucket=bucket, Key="k"), s3.get_object(Bucket=bucket, Key="k")):
        for name, value in sent.items():
            if name == "Expires":
                assert got["ExpiresString"] == "Tue, 06 May 2031 07:08:09 GMT"
            else:
                assert got[name] == value, name
    # Headers that the client did not send are not invented, except the content type.
    s3.put_object(Bucket=bucket, Key="plain", Body=b"x")
    head = s3.head_object(Bucket=bucket, Key="plain")
    assert head["ContentType"] == "binary/octet-stream"
    assert head["Metadata"] == {} and "ContentEncoding" not in head and "CacheControl" not in head


def test_metadata_too_large(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "v" * 2000})
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k", Body=b"y", Metadata={"a": "v" * 2100})
    assert error_of(info) == ("MetadataTooLarge", 400)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_response_overrides(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain")
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="text/html", ResponseCacheControl="no-cache",
                        ResponseContentDisposition="inline", ResponseContentLanguage="fr", ResponseContentEncoding="identity")
    assert (got["ContentType"], got["CacheControl"], got["ContentDisposition"], got["ContentLanguage"], got["ContentEncoding"]) == (
        "text/html", "no-cache", "inline", "fr", "identity")


def test_storage_class_and_acl(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass="STANDARD_IA", ACL="private")
    assert s3.head_object(Bucket=bucket, Key="k")["StorageClass"] == "STANDARD_IA"
    s3.put_object(Bucket=bucket, Key="k2", Body=b"x", ACL="bucket-owner-full-control")
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k3", Body=b"x", StorageClass="CHEAP")
    assert error_of(info)[0] == "InvalidStorageClass"


def test_conditions_of_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = datetime.timedelta(hours=1)
    for good in (dict(IfMatch=etag), dict(IfNoneMatch='"other"'), dict(IfModifiedSince=when - hour), dict(IfUnmodifiedSince=when),
                 dict(IfMatch=etag, IfUnmodifiedSince=when - hour)):
        assert s3.get_object(Bucket=bucket, Key="k", **good)["Body"].read() == b"x", good
        s3.head_object(Bucket=bucket, Key="k", **good)
    for bad, status in ((dict(IfMatch='"other"'), 412), (dict(IfNoneMatch=etag), 304), (dict(IfModifiedSince=when), 304),
                        (dict(IfUnmodifiedSince=when - hour), 412), (dict(IfNoneMatch=etag, IfModifiedSince=when - hour), 304)):
        for call in (s3.get_object, s3.head_object):
            with pytest.raises(ClientError) as info:
                call(Bucket=bucket, Key="k", **bad)
            assert error_of(info)[1] == status, bad


def test_conditions_of_writes(s3, bucket):
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k", Body=b"0", IfMatch='"abc"')
    assert error_of(info) == ("NoSuchKey", 404)
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    assert error_of(info) == ("PreconditionFailed", 412)
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch='"abc"')
    assert error_of(info) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"
    newer = s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)["ETag"]
    with pytest.raises(ClientError) as info:
        s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag)
    assert error_of(info) == ("PreconditionFailed", 412)
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=newer)
    with pytest.raises(ClientError) as info:
        s3.head_object(Bucket=bucket, Key="k")
    assert error_of(info)[1] == 404


def test_copy(s3, bucket):
    body = pattern(300_000)
    etag = s3.put_object(Bucket=bucket, Key="from", Body=body, ContentType="text/css", Metadata={"a": "1"})["ETag"]
    response = s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"})
    assert response["CopyObjectResult"]["ETag"] == etag
    got = s3.get_object(Bucket=bucket, Key="to")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (body, "text/css", {"a": "1"})

    s3.copy_object(Bucket=bucket, Key="to", CopySource=f"/{bucket}/from", MetadataDirective="REPLACE",
                   ContentType="text/html", Metadata={"b": "2"})
    got = s3.get_object(Bucket=bucket, Key="to")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (body, "text/html", {"b": "2"})

    # The copy remains when its source is deleted.
    s3.delete_object(Bucket=bucket, Key="from")
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == body

    with pytest.raises(ClientError) as info:
        s3.copy_object(Bucket=bucket, Key="x", CopySource={"Bucket": bucket, "Key": "from"})
    assert error_of(info) == ("NoSuchKey", 404)
    with pytest.raises(ClientError) as info:
        s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "to"})
    assert error_of(info) == ("InvalidRequest", 400)
    with pytest.raises(ClientError) as info:
        s3.copy_object(Bucket=bucket, Key="x", CopySource={"Bucket": bucket, "Key": "to"}, CopySourceIfMatch='"other"')
    assert error_of(info) == ("PreconditionFailed", 412)


def test_delete(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for _ in range(2):  # deleting a missing key succeeds
        assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204
    with pytest.raises(ClientError) as info:
        s3.get_object(Bucket=bucket, Key="k")
    assert error_of(info) == ("NoSuchKey", 404)


def test_delete_objects(s3, bucket):
    keys = [f"d/{i:04}" for i in range(25)]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    response = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in keys[:20] + ["not there"]]})
    assert {d["Key"] for d in response["Deleted"]} == set(keys[:20]) | {"not there"}
    response = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": keys[20]}], "Quiet": True})
    assert "Deleted" not in response and "Errors" not in response
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == keys[21:]
    for wrong in ([], [{"Key": f"{i}"} for i in range(1001)]):
        with pytest.raises(ClientError) as info:
            s3.delete_objects(Bucket=bucket, Delete={"Objects": wrong})
        assert error_of(info) == ("MalformedXML", 400)


@pytest.mark.parametrize("operation,arguments", [
    ("get_object_torrent", {"Key": "k"}),
    ("put_bucket_website", {"WebsiteConfiguration": {}}),
    ("restore_object", {"Key": "k", "RestoreRequest": {"Days": 1}}),
])
def test_unsupported_operations_are_refused(s3, bucket, operation, arguments):
    """A request for an unsupported sub-resource never changes the object. Remove operations from this list when they
    become supported."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    with pytest.raises(ClientError) as info:
        getattr(s3, operation)(Bucket=bucket, **arguments)
    assert error_of(info) == ("NotImplemented", 501)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"kept"
