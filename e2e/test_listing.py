"""Buckets and listings."""

import uuid

import pytest
from botocore.exceptions import ClientError

from conftest import REGION, error_of


def test_buckets(s3):
    names = sorted(f"e2e-list-{uuid.uuid4().hex[:8]}" for _ in range(5))
    for name in names:
        assert s3.create_bucket(Bucket=name)["Location"] == "/" + name
    try:
        listed = s3.list_buckets()
        assert set(names) <= {b["Name"] for b in listed["Buckets"]}
        assert listed["Owner"]["ID"]
        listed = s3.list_buckets(Prefix="e2e-list-", MaxBuckets=2)
        assert [b["Name"] for b in listed["Buckets"]] == names[:2]
        listed = s3.list_buckets(Prefix="e2e-list-", ContinuationToken=listed["ContinuationToken"])
        assert [b["Name"] for b in listed["Buckets"]] == names[2:]
        head = s3.head_bucket(Bucket=names[0])
        assert head["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"] == REGION
        assert s3.get_bucket_location(Bucket=names[0])["LocationConstraint"] is None
        assert s3.get_bucket_versioning(Bucket=names[0]).get("Status") is None
        assert s3.get_bucket_acl(Bucket=names[0])["Grants"][0]["Permission"] == "FULL_CONTROL"
        s3.create_bucket(Bucket=names[0])  # in us-east-1 the owner may create a bucket twice
    finally:
        for name in names:
            s3.delete_bucket(Bucket=name)
    with pytest.raises(ClientError) as info:
        s3.head_bucket(Bucket=names[0])
    assert error_of(info)[1] == 404


def test_bucket_errors(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with pytest.raises(ClientError) as info:
        s3.delete_bucket(Bucket=bucket)
    assert error_of(info) == ("BucketNotEmpty", 409)
    for call, arguments in (("list_objects_v2", {}), ("get_object", {"Key": "k"}), ("put_object", {"Key": "k", "Body": b"x"}),
                            ("delete_object", {"Key": "k"}), ("delete_bucket", {}), ("get_bucket_location", {}),
                            ("create_multipart_upload", {"Key": "k"})):
        with pytest.raises(ClientError) as info:
            getattr(s3, call)(Bucket="e2e-missing-bucket", **arguments)
        assert error_of(info) == ("NoSuchBucket", 404), call
    for name in ("UPPER", "1.2.3.4", "a..b", "under_score", "x" * 64):
        with pytest.raises(ClientError) as info:
            s3.create_bucket(Bucket=name)
        assert error_of(info) == ("InvalidBucketName", 400), name


def keys_and_prefixes(pages):
    keys, prefixes = [], []
    for page in pages:
        keys += [o["Key"] for o in page.get("Contents", [])]
        prefixes += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
    return keys, prefixes


@pytest.fixture
def tree(s3, bucket):
    keys = sorted([f"a/{i:02}" for i in range(30)] + [f"b/{i}/x" for i in range(9)] + ["a", "a0", "b", "c//d", "ü/1", "zz"], key=str.encode)
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"12345")
    return keys


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("page_size", [1, 3, 1000])
def test_paging(s3, bucket, tree, operation, page_size):
    def pages(**more):
        return s3.get_paginator(operation).paginate(Bucket=bucket, PaginationConfig={"PageSize": page_size}, **more)

    assert keys_and_prefixes(pages()) == (tree, [])
    assert keys_and_prefixes(pages(Delimiter="/")) == (["a", "a0", "b", "zz"], ["a/", "b/", "c/", "ü/"])
    assert keys_and_prefixes(pages(Delimiter="/", Prefix="b/")) == ([], [f"b/{i}/" for i in range(9)])
    assert keys_and_prefixes(pages(Prefix="a")) == ([k for k in tree if k.startswith("a")], [])
    assert keys_and_prefixes(pages(Delimiter="0", Prefix="a/")) == (
        [k for k in tree if k.startswith("a/") and "0" not in k], ["a/0", "a/10", "a/20"])
    assert keys_and_prefixes(pages(Prefix="nothing")) == ([], [])


def test_listing_fields(s3, bucket, tree):
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=2, FetchOwner=True)
    assert page["IsTruncated"] and page["KeyCount"] == 2 and page["MaxKeys"] == 2 and page["Name"] == bucket
    first = page["Contents"][0]
    assert first["Size"] == 5 and first["ETag"] == '"827ccb0eea8a706c4c34a16891f84e7b"' and first["StorageClass"] == "STANDARD"
    assert first["Owner"]["ID"] == s3.list_buckets()["Owner"]["ID"]
    assert first["LastModified"] == s3.head_object(Bucket=bucket, Key=first["Key"])["LastModified"].replace(
        microsecond=first["LastModified"].microsecond)
    page = s3.list_objects_v2(Bucket=bucket, StartAfter="b/4/x")
    assert [o["Key"] for o in page["Contents"]] == [k for k in tree if k.encode() > b"b/4/x"]
    assert not page["IsTruncated"]
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert page["KeyCount"] == 0 and not page["IsTruncated"]
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=5000)
    assert page["MaxKeys"] == 1000 and page["KeyCount"] == len(tree)
    with pytest.raises(ClientError) as info:
        s3.list_objects_v2(Bucket=bucket, ContinuationToken="not a token")
    assert error_of(info) == ("InvalidArgument", 400)
