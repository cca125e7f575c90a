"""Access keys: orcas admin key, and programs that use a key for a prefix."""

import json
import os
import re
import subprocess
import uuid

import pytest

from conftest import BINARY, HANG_SECONDS, Server, pattern

ROOT_ENVIRONMENT = {"ORCAS_ROOT_ACCESS_KEY": "e2e-access-key", "ORCAS_ROOT_SECRET_KEY": "e2e-secret-key-0123456789"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A server with an admin API."""
    server = Server(tmp_path_factory.mktemp("keys") / "data", "--admin-address", "127.0.0.1:0")
    yield server
    assert server.stop() == 0, server.log


def admin(store, *arguments, check=True):
    address = re.search(r"admin\s+http://(\S+)", store.banner).group(1)
    done = subprocess.run(
        [str(BINARY), "admin", "key", *arguments, "--admin-address", address],
        env={"PATH": os.environ["PATH"]} | ROOT_ENVIRONMENT, capture_output=True, text=True, timeout=HANG_SECONDS)
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def key(store):
    """A key for a prefix of a new bucket, in which the root has an object outside of the prefix."""
    name = f"e2e-{uuid.uuid4().hex[:12]}"
    root = store.client()
    root.create_bucket(Bucket=name)
    root.put_object(Bucket=name, Key="private/secret", Body=b"secret")
    return json.loads(admin(store, "create", name, "--bucket", name, "--prefix", "team/a/", "--access", "readwrite", "--expires", "90d", "--json"))


def environment(key, store):
    return {
        "AWS_ACCESS_KEY_ID": key["access_key"], "AWS_SECRET_ACCESS_KEY": key["secret_key"], "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": key["endpoint"], "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true", "PATH": os.environ["PATH"], "HOME": str(store.data.parent),
    }


def run(arguments, environ, check=True, **more):
    done = subprocess.run(list(map(str, arguments)), env=environ, capture_output=True, text=True, timeout=HANG_SECONDS, **more)
    if check:
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def aws(key, store, *arguments, check=True):
    return store.aws(*arguments, check=check, environ=environment(key, store))


def test_aws_cli(store, key, tmp_path):
    bucket = key["bucket"]
    file = tmp_path / "file"
    file.write_bytes(pattern(9 << 20))  # a multipart upload
    aws(key, store, "s3", "cp", file, f"s3://{bucket}/team/a/file")
    assert "file" in aws(key, store, "s3", "ls", f"s3://{bucket}/team/a/").stdout
    aws(key, store, "s3", "cp", f"s3://{bucket}/team/a/file", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    aws(key, store, "s3", "sync", tmp_path, f"s3://{bucket}/team/a/sync/")
    aws(key, store, "s3", "mv", f"s3://{bucket}/team/a/sync/file", f"s3://{bucket}/team/a/sync/moved")
    aws(key, store, "s3", "rm", "--recursive", f"s3://{bucket}/team/a/")
    aws(key, store, "s3api", "head-bucket", "--bucket", bucket)
    for outside in (
        ["s3", "ls", f"s3://{bucket}/"], ["s3", "ls", f"s3://{bucket}/private/"], ["s3", "ls", f"s3://{bucket}/team/"],
        ["s3", "cp", file, f"s3://{bucket}/team/b/file"], ["s3", "cp", f"s3://{bucket}/private/secret", tmp_path / "secret"],
        ["s3", "cp", f"s3://{bucket}/private/secret", f"s3://{bucket}/team/a/stolen"],
        ["s3", "mb", f"s3://{bucket}-2"], ["s3", "rb", f"s3://{bucket}"], ["s3api", "get-bucket-policy", "--bucket", bucket],
    ):
        done = aws(key, store, *outside, check=False)
        assert done.returncode != 0 and ("AccessDenied" in done.stderr or "403" in done.stderr), f"{outside}: {done.stdout}{done.stderr}"
    assert not (tmp_path / "secret").exists()


def test_rclone(store, key, tmp_path):
    files = tmp_path / "files"
    (files / "sub").mkdir(parents=True)
    (files / "small").write_bytes(b"small")
    (files / "sub" / "large").write_bytes(pattern(6 << 20))
    config = tmp_path / "rclone.conf"
    config.write_text(
        f"[orcas]\ntype = s3\nprovider = Minio\naccess_key_id = {key['access_key']}\nsecret_access_key = {key['secret_key']}\n"
        f"endpoint = {key['endpoint']}\nregion = us-east-1\n")
    there = f"orcas:{key['bucket']}/team/a/rclone"
    rclone = lambda *a, check=True: run(["rclone", "--config", config, "--retries", "1", *a], environment(key, store), check)  # noqa: E731
    rclone("sync", files, there)
    rclone("check", "--download", files, there)
    assert sorted(rclone("lsf", "-R", "--files-only", there).stdout.split()) == ["small", "sub/large"]
    (files / "small").unlink()
    rclone("sync", files, there)
    rclone("copyto", files / "sub" / "large", f"orcas:{key['bucket']}/team/a/one")
    rclone("moveto", f"orcas:{key['bucket']}/team/a/one", f"orcas:{key['bucket']}/team/a/two")
    rclone("purge", f"orcas:{key['bucket']}/team/a")
    for outside in (["lsf", f"orcas:{key['bucket']}/private"], ["copy", files, f"orcas:{key['bucket']}/team/b"]):
        done = rclone(*outside, check=False)
        assert done.returncode != 0 and "AccessDenied" in done.stderr, done.stderr


def test_restic(store, key, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "file").write_bytes(pattern(3 << 20))
    repository = f"s3:{key['endpoint']}/{key['bucket']}/team/a/restic"
    environ = environment(key, store) | {"RESTIC_PASSWORD": "e2e", "RESTIC_REPOSITORY": repository, "RESTIC_CACHE_DIR": str(tmp_path / "cache")}
    for arguments in (["init"], ["backup", "file"], ["check", "--read-data"], ["restore", "latest", "--target", tmp_path / "restored"],
                      ["forget", "--keep-last", "1", "--prune"], ["snapshots"]):
        run(["restic", *arguments], environ, cwd=files)
    assert (tmp_path / "restored" / "file").read_bytes() == (files / "file").read_bytes()
    done = run(["restic", "init"], environ | {"RESTIC_REPOSITORY": f"s3:{key['endpoint']}/{key['bucket']}/team/b"}, check=False)
    assert done.returncode != 0


def test_lines_for_a_shell(store, key):
    lines = admin(store, "create", f"shell-{key['bucket']}", "--bucket", key["bucket"], "--prefix", "team/a/", "--access", "write")
    done = run(["bash", "-c", f"eval '{lines}'; env"], {"PATH": os.environ["PATH"]})
    assert {line.split("=")[0] for line in done.stdout.splitlines()} >= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"}
    assert key["secret_key"] not in store.log


def test_revoked_keys_fail_on_open_connections(store, key):
    client = store.client(aws_access_key_id=key["access_key"], aws_secret_access_key=key["secret_key"])
    client.put_object(Bucket=key["bucket"], Key="team/a/key", Body=b"x")
    admin(store, "disable", key["name"])
    with pytest.raises(client.exceptions.ClientError, match="InvalidAccessKeyId"):
        client.get_object(Bucket=key["bucket"], Key="team/a/key")
    admin(store, "enable", key["name"])
    client.get_object(Bucket=key["bucket"], Key="team/a/key")
    admin(store, "delete", key["name"])
    with pytest.raises(client.exceptions.ClientError, match="InvalidAccessKeyId"):
        client.get_object(Bucket=key["bucket"], Key="team/a/key")
