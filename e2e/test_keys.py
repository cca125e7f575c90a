"""Keys are arbitrary UTF-8: neither clients nor any layer of the server may treat them as paths."""

import os

import pytest
from botocore.exceptions import ClientError

from conftest import error_of

KEYS = [
    "plain", "with space", " leading", "trailing ", "a/b/c", "/leading/slash", "trailing/slash/", "//", "a//b", "///a",
    ".", "a/../b", "a/./b", "...", "a/..", "a/b/../../c", "a+b", "+", "a%b", "%", "%20", "%2F", "a%2fb", "%%", "100%",
    "a?b", "?acl", "a#b", "#", "a&b=c", "a=b", ";", "a:b", "a@b", "a,b", "$HOME", "`id`", "a'b", 'a"b', "a\\b", "<a>", "]]>", "&amp;",
    "(a)", "[a]", "{a}", "a|b", "a^b", "~", "~user", "*", "!", "-", "--help", "_", "ünïcödé", "日本語/キー", "🐋", "🐋/🦈 fin", "e\u0301", "\u00e9",
    "\u202eltr", "tab\there", "new\nline", "cr\rlf\n", "\x01\x1f", "\x7f", "\ufffd", "a" * 1024, "é" * 512, "🐋" * 256, "a/" * 512,
]


def in_xml(key):
    return all(c >= " " or c in "\t\n\r" for c in key)


def test_every_key_is_kept_unchanged(s3, bucket):
    for i, key in enumerate(KEYS):
        s3.put_object(Bucket=bucket, Key=key, Body=f"{i}".encode())
    for i, key in enumerate(KEYS):
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == f"{i}".encode(), repr(key)
        assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(f"{i}"), repr(key)
    expected = sorted(KEYS, key=str.encode)
    listed = [o["Key"] for p in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 7})
              for o in p["Contents"]]
    assert listed == expected
    listed = [o["Key"] for p in s3.get_paginator("list_objects").paginate(Bucket=bucket, PaginationConfig={"PageSize": 7})
              for o in p["Contents"]]
    assert listed == expected
    for i, key in enumerate(KEYS):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
        assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == f"{i}".encode(), repr(key)
    s3.delete_object(Bucket=bucket, Key="copy")
    # XML cannot contain control characters, so delete these keys with DeleteObject, which has the key in the path.
    for key in [k for k in KEYS if not in_xml(k)]:
        s3.delete_object(Bucket=bucket, Key=key)
    rest = [k for k in KEYS if in_xml(k)]
    response = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in rest]})
    assert not response.get("Errors"), response
    assert [d["Key"] for d in response["Deleted"]] == rest
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_keys_through_the_command_line(server, s3, bucket, tmp_path):
    names = ["with space", "a+b%20c", "dir/🐋/ü", "x" * 200, "%", "q?a=b&c#d", "-rf", "'quoted\"", "a/b/c/d/e", "tilde~"]
    tree, back = tmp_path / "tree", tmp_path / "back"
    for i, name in enumerate(names):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{i}")
    server.aws("s3", "sync", tree, f"s3://{bucket}")
    for i, name in enumerate(names):
        assert s3.get_object(Bucket=bucket, Key=name)["Body"].read() == f"{i}".encode(), name
    server.aws("s3", "sync", f"s3://{bucket}", back)
    for i, name in enumerate(names):
        assert (back / name).read_text() == f"{i}", name
    server.aws("s3", "cp", tree / "tilde~", f"s3://{bucket}/a/../b//c")
    assert s3.get_object(Bucket=bucket, Key="a/../b//c")["Body"].read() == b"9"


def test_invalid_keys(s3, bucket):
    for key in ("a" * 1025, "é" * 513):
        for call in (lambda: s3.put_object(Bucket=bucket, Key=key, Body=b"x"), lambda: s3.get_object(Bucket=bucket, Key=key)):
            with pytest.raises(ClientError) as info:
                call()
            assert error_of(info) == ("KeyTooLongError", 400)
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="nul\0", Body=b"x")
    assert error_of(info)[1] == 400
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_escaping_keys(start):
    """Keys above the root of their bucket can only be read and deleted, unless a setting allows writes."""
    keys = ["../x", "..", "/..", "a/../../x"]
    s = start(env={"ORCAS_ALLOW_ESCAPING_KEYS": "true"})
    s3 = s.client()
    s3.create_bucket(Bucket="bucket")
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=key)
    assert s.stop() == 0
    s = start()
    s3 = s.client()
    for key in keys:
        with pytest.raises(ClientError) as info:
            s3.put_object(Bucket="bucket", Key=key, Body=b"x")
        assert error_of(info) == ("InvalidURI", 400)
        assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == key.encode()
    assert sorted(o["Key"] for o in s3.list_objects_v2(Bucket="bucket")["Contents"]) == sorted(keys)
    for key in keys:
        s3.delete_object(Bucket="bucket", Key=key)
    s3.delete_bucket(Bucket="bucket")
    assert s.stop() == 0


def test_no_key_becomes_a_file(start, tmp_path):
    s = start(env={"ORCAS_ALLOW_ESCAPING_KEYS": "true"})
    s3 = s.client()
    s3.create_bucket(Bucket="files")
    for key in ("../escaped", "/etc/escaped", "a/../../../escaped", "%2e%2e/escaped"):
        s3.put_object(Bucket="files", Key=key, Body=b"x" * 100_000)
    assert s.stop() == 0
    found = [f for _, _, files in os.walk(tmp_path) for f in files if "escaped" in f]
    assert not found and not os.path.exists("/etc/escaped")
