"""aws-cli with no settings other than the endpoint and the credentials."""

import concurrent.futures
import hashlib
import json
import random

from conftest import pattern

MIB = 1 << 20


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def tree_of(root):
    return {str(p.relative_to(root)): digest(p) for p in sorted(root.rglob("*")) if p.is_file()}


def test_session(server, tmp_path):
    """The commands of README.md, and a few more."""
    url = f"s3://e2e-cli-{random.randrange(1 << 40):x}"
    hello = tmp_path / "hello.txt"
    hello.write_text("hello\n")
    server.aws("s3", "mb", url)
    server.aws("s3", "cp", hello, url + "/greetings/")
    server.aws("s3", "cp", hello, url + "/other.txt", "--content-type", "text/x-mine", "--metadata", "a=b")
    assert "greetings/" in (listing := server.aws("s3", "ls", url).stdout) and "6 other.txt" in listing, listing
    assert server.aws("s3", "ls", url, "--recursive", "--summarize").stdout.count("hello.txt") == 1
    assert server.aws("s3", "cp", url + "/greetings/hello.txt", "-").stdout == "hello\n"
    server.aws("s3", "mv", url + "/other.txt", url + "/moved.txt")
    head = json.loads(server.aws("s3api", "head-object", "--bucket", url[5:], "--key", "moved.txt").stdout)
    assert head["ContentType"] == "text/x-mine" and head["Metadata"] == {"a": "b"} and head["ContentLength"] == 6
    # By default, aws-cli 1 presigns with signature version 2 in us-east-1 (see test_access.py).
    config = tmp_path / "config"
    config.write_text("[default]\ns3 =\n  signature_version = s3v4\n")
    link = server.aws("s3", "presign", url + "/moved.txt", environ={"AWS_CONFIG_FILE": str(config)}).stdout.strip()
    assert server.http("GET", link).data == b"hello\n"
    assert server.aws("s3", "rb", url, check=False).returncode != 0  # not empty
    missing = server.aws("s3", "cp", url + "/missing", tmp_path / "x", check=False)
    assert missing.returncode != 0 and "404" in missing.stderr
    server.aws("s3", "rb", url, "--force")
    assert url[5:] not in server.aws("s3", "ls").stdout


def test_large_files(server, s3, bucket, tmp_path):
    """aws-cli uploads large files in parts: 200 MB are 24 parts of 8 MiB."""
    for size in (0, 1, 8 * MIB - 1, 8 * MIB, 200_000_000):
        there, back = tmp_path / "there", tmp_path / "back"
        there.write_bytes(pattern(size, size))
        server.aws("s3", "cp", there, f"s3://{bucket}/file", "--no-progress")
        head = s3.head_object(Bucket=bucket, Key="file")
        assert head["ContentLength"] == size
        assert head["ETag"].endswith('-24"') == (size == 200_000_000)
        server.aws("s3", "cp", f"s3://{bucket}/file", back, "--no-progress")
        assert digest(there) == digest(back), size


def test_sync_many_files(server, s3, bucket, tmp_path):
    count = 1000 if server.ca else 5000
    there, back = tmp_path / "there", tmp_path / "back"
    sizes = random.Random(count)
    for i in range(count):
        path = there / f"{i % 50:02}" / f"{i:04}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sizes.randbytes(sizes.choice([0, 10, 500, 4096, 20_000])))
    server.aws("s3", "sync", there, f"s3://{bucket}/tree", "--no-progress", "--only-show-errors")
    server.aws("s3", "sync", f"s3://{bucket}/tree", back, "--no-progress", "--only-show-errors")
    assert len(expected := tree_of(there)) == count
    assert tree_of(back) == expected
    # No file has changed, so no file is sent again.
    assert server.aws("s3", "sync", there, f"s3://{bucket}/tree", "--no-progress", "--size-only").stdout == ""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="tree/", Delimiter="/")
    assert sum(len(p.get("CommonPrefixes", [])) for p in pages) == 50


def test_parallel_clients(server, s3, bucket):
    """64 threads of one process put small objects and read them back."""
    client = server.client(config={"max_pool_connections": 64})

    def one(i):
        body = pattern(random.Random(i).randrange(70_000), i)
        client.put_object(Bucket=bucket, Key=f"p/{i}", Body=body)
        return client.get_object(Bucket=bucket, Key=f"p/{i}")["Body"].read() == body

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        assert all(pool.map(one, range(500)))
