"""orcas sync, cp and the other transfer commands with S3 servers of other makes, compared object by object."""

import json
import os
import shutil
import subprocess

import boto3
import botocore.config
import pytest

from conftest import BINARY, HANG_SECONDS, Server, pattern
from others import other  # noqa: F401
from program import files, same, tree  # noqa: F401


class Orcas:
    """The command line with two profiles: s3 is the other server, and ours is this one."""

    def __init__(self, server, other, home):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | {
            "HOME": str(home), "AWS_ACCESS_KEY_ID": other.access, "AWS_SECRET_ACCESS_KEY": other.secret, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": other.endpoint}
        if other.name == "radosgw":  # it does not know the checksums of newer clients
            self.env |= {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}
        self.home = home
        self("alias", "set", "ours", server.endpoint, "--access-key", server.access, input=server.secret + "\n")

    def __call__(self, *arguments, status=0, **more):
        done = subprocess.run([str(BINARY), *map(str, arguments)], env=self.env, cwd=self.home, capture_output=True, text=True, timeout=HANG_SECONDS, **more)
        assert done.returncode == status, f"orcas {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def lines(self, *arguments, **more):
        """Returns what a command prints with --json."""
        return [json.loads(line) for line in self(*arguments, "--json", **more).splitlines()]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """An ORCAS server."""
    server = Server(tmp_path_factory.mktemp("ours") / "data")
    yield server
    server.kill()


@pytest.fixture
def orcas(ours, other, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Orcas(ours, other, home)


def client(server):
    """Returns a boto3 client that sends only the checksums that S3 requires, which every server understands."""
    return boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id=server.access, aws_secret_access_key=server.secret,
                        config=botocore.config.Config(request_checksum_calculation="when_required", response_checksum_validation="when_required",
                                                      s3={"addressing_style": "path"}))


def objects(s3, bucket, prefix):
    """Returns the content of all objects below a prefix, by the rest of their keys."""
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for o in page.get("Contents", []):
            found[o["Key"].removeprefix(prefix)] = s3.get_object(Bucket=bucket, Key=o["Key"])["Body"].read()
    return found


def test_sync(orcas, other, tree, tmp_path):
    """A tree up and down, changed, and with --delete."""
    s3 = client(other)
    orcas("mb", "s3://sync-bucket")
    orcas("sync", tree, "s3://sync-bucket/tree")
    assert objects(s3, "sync-bucket", "tree/") == files(tree)
    assert orcas.lines("sync", tree, "s3://sync-bucket/tree", "--dry-run")[-1].get("bytes_sent", 0) == 0

    changed = tmp_path / "changed"
    shutil.copytree(tree, changed)
    shutil.rmtree(changed / "small/3")
    (changed / "large").write_bytes(pattern((23 << 20) + 18, 99))
    (changed / "new").write_bytes(b"new")
    orcas("sync", "--delete", changed, "s3://sync-bucket/tree")
    assert objects(s3, "sync-bucket", "tree/") == files(changed)

    orcas("sync", "s3://sync-bucket/tree", tmp_path / "back")
    same(changed, tmp_path / "back")
    (tmp_path / "back/extra").write_bytes(b"extra")
    orcas("sync", "--delete", "--checksum", "s3://sync-bucket/tree", tmp_path / "back")
    same(changed, tmp_path / "back")


def test_between_servers(orcas, other, ours, tree):
    """From this server to the other one, and back under another prefix."""
    name = "between-" + other.name
    orcas("mb", f"ours://{name}")
    orcas("mb", f"s3://{name}")
    orcas("sync", tree, f"ours://{name}/tree")
    orcas("sync", f"ours://{name}/tree", f"s3://{name}/tree")
    assert objects(client(other), name, "tree/") == files(tree)
    orcas("sync", f"s3://{name}/tree", f"ours://{name}/back")
    assert objects(client(ours), name, "back/") == files(tree)


def test_commands(orcas, other, tmp_path):
    """Each other command once."""
    s3 = client(other)
    orcas("mb", "s3://command-bucket")
    orcas("pipe", "s3://command-bucket/a/one", input="content of one")
    (tmp_path / "two").write_bytes(pattern(40 << 20, 2))  # in parts
    orcas("cp", tmp_path / "two", "s3://command-bucket/a/two")
    assert orcas("cat", "s3://command-bucket/a/one") == "content of one"
    assert s3.get_object(Bucket="command-bucket", Key="a/two")["Body"].read() == pattern(40 << 20, 2)
    orcas("cp", "s3://command-bucket/a/two", tmp_path / "two-again")
    assert (tmp_path / "two-again").read_bytes() == pattern(40 << 20, 2)
    assert {o["key"] for o in orcas.lines("ls", "--recursive", "s3://command-bucket/")} == {"a/one", "a/two"}
    assert "one" in orcas("tree", "s3://command-bucket/") and str((40 << 20) + 14) in orcas("du", "s3://command-bucket/")
    assert "14" in orcas("stat", "s3://command-bucket/a/one")
    assert "a/two" in orcas("find", "s3://command-bucket/", "--larger", "1MiB")
    url = orcas("presign", "s3://command-bucket/a/one").strip()
    assert subprocess.run(["curl", "-sf", url], capture_output=True, check=True).stdout == b"content of one"
    orcas("mv", "s3://command-bucket/a/one", "s3://command-bucket/b/one")
    assert set(objects(s3, "command-bucket", "")) == {"a/two", "b/one"}
    orcas("cat", "s3://command-bucket/a/one", status=3)
    orcas("tag", "set", "s3://command-bucket/b/one", "color=blue")
    assert s3.get_object_tagging(Bucket="command-bucket", Key="b/one")["TagSet"] == [{"Key": "color", "Value": "blue"}]
    orcas("rm", "s3://command-bucket/b/one")
    orcas("rm", "--recursive", "--force", "s3://command-bucket/")
    orcas("rb", "s3://command-bucket")
    assert "command-bucket" not in [b["Name"] for b in s3.list_buckets()["Buckets"]]
