"""Renames, appends, and conditional writes and deletes, with boto3."""

import pytest
from botocore.exceptions import ClientError

from conftest import error_of, pattern


def refused(code, call, **arguments):
    with pytest.raises(ClientError) as info:
        call(**arguments)
    assert error_of(info)[0] == code


def test_rename(s3, bucket):
    body = pattern(300_000)
    etag = s3.put_object(Bucket=bucket, Key="old name+ü", Body=body, Metadata={"a": "b"})["ETag"]
    was = s3.head_object(Bucket=bucket, Key="old name+ü")
    for _ in range(2):  # as if the response had been lost: a retry sends the same client token
        s3.rename_object(Bucket=bucket, Key="new", RenameSource="old%20name%2B%C3%BC", DestinationIfNoneMatch="*", SourceIfMatch=etag,
                         ClientToken="once")
    got = s3.get_object(Bucket=bucket, Key="new")
    assert got["Body"].read() == body
    assert (got["ETag"], got["LastModified"], got["Metadata"]) == (etag, was["LastModified"], {"a": "b"})
    refused("NoSuchKey", s3.rename_object, Bucket=bucket, Key="x", RenameSource="old%20name%2B%C3%BC")
    refused("IdempotencyParameterMismatch", s3.rename_object, Bucket=bucket, Key="new", RenameSource="x", ClientToken="once")
    refused("PreconditionFailed", s3.rename_object, Bucket=bucket, Key="x", RenameSource="new", SourceIfMatch='"x"')


def test_append(s3, bucket):
    whole = b""
    for size in [100, 5000, 70_000, 1, 300_000, 10, 10, 10, 10, 10, 10]:
        body = pattern(size, seed=size)
        response = s3.put_object(Bucket=bucket, Key="log", Body=body, WriteOffsetBytes=len(whole))
        whole += body
        assert response["Size"] == len(whole)
    assert response["ETag"].endswith('-11"')
    got = s3.get_object(Bucket=bucket, Key="log", ChecksumMode="ENABLED")  # boto3 verifies the checksum of the whole object
    assert got["Body"].read() == whole and got["ChecksumCRC32"] == response["ChecksumCRC32"]
    refused("InvalidWriteOffset", s3.put_object, Bucket=bucket, Key="log", Body=b"x", WriteOffsetBytes=1)
    refused("InvalidWriteOffset", s3.put_object, Bucket=bucket, Key="other", Body=b"x", WriteOffsetBytes=1)


def test_conditional_deletes(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"content")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    refused("PreconditionFailed", s3.delete_object, Bucket=bucket, Key="k", IfMatch='"x"')
    refused("PreconditionFailed", s3.delete_object, Bucket=bucket, Key="k", IfMatchSize=8)
    refused("PreconditionFailed", s3.delete_object, Bucket=bucket, Key="k", IfMatchLastModifiedTime=modified.replace(year=2001))
    entry = {"Key": "k", "ETag": etag, "Size": 8, "LastModifiedTime": modified}
    response = s3.delete_objects(Bucket=bucket, Delete={"Objects": [entry]})
    assert response["Errors"][0]["Code"] == "PreconditionFailed"
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag, IfMatchSize=7, IfMatchLastModifiedTime=modified)
    s3.put_object(Bucket=bucket, Key="k", Body=b"content")
    entry.update(Size=7, LastModifiedTime=s3.head_object(Bucket=bucket, Key="k")["LastModified"])
    assert s3.delete_objects(Bucket=bucket, Delete={"Objects": [entry]})["Deleted"] == [{"Key": "k"}]
