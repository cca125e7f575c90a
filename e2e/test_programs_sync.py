"""Programs that copy directory trees or keep backups: rclone, restic, s3cmd, s4cmd, s3fs, and Debian's aws-cli."""

import json
import os
import pathlib
import shutil
import subprocess
import time
import uuid

import pytest

from conftest import pattern
from program import INSTALLED, Programs, files, programs, same, tree  # noqa: F401


@pytest.fixture
def name():
    """The name of a bucket that the program under test creates."""
    name = "prog-" + uuid.uuid4().hex[:16]
    yield name


DOMAIN = "s3.orcas.test"


@pytest.fixture
def rclone(start, tmp_path):
    """rclone with the provider AWS, which uses virtual-host style. The host names are not in any DNS, so rclone uses the
    server, which knows its domain, as an HTTP proxy."""
    server = start(env={"ORCAS_DOMAINS": DOMAIN})
    programs = Programs(server, tmp_path)
    config = tmp_path / "rclone.conf"
    config.write_text(f"[orcas]\ntype = s3\nprovider = AWS\nenv_auth = true\nregion = us-east-1\nendpoint = http://{DOMAIN}\n")
    return lambda *a, **more: programs.run("rclone", "--config", config, *a, env={"HTTP_PROXY": server.endpoint}, **more)


def test_rclone(rclone, tree, name, tmp_path):
    run = rclone
    run("mkdir", f"orcas:{name}")
    run("sync", tree, f"orcas:{name}/tree")
    run("check", tree, f"orcas:{name}/tree")
    run("check", "--download", tree, f"orcas:{name}/tree")
    run("copy", f"orcas:{name}/tree", tmp_path / "back")
    same(tree, tmp_path / "back")
    for path in tree.rglob("*"):  # modification times are kept
        if path.is_file():
            assert abs(path.stat().st_mtime - (tmp_path / "back" / path.relative_to(tree)).stat().st_mtime) < 1e-3

    changed = tmp_path / "changed"
    shutil.copytree(tree, changed)
    shutil.rmtree(changed / "small/3")
    (changed / "large").write_bytes(pattern(9 << 20, 99))
    (changed / "new").write_bytes(b"new")
    run("sync", changed, f"orcas:{name}/tree")
    run("check", "--download", changed, f"orcas:{name}/tree")

    run("copy", f"orcas:{name}/tree", f"orcas:{name}/copied")  # copied by the server
    run("check", "--download", changed, f"orcas:{name}/copied")
    run("move", f"orcas:{name}/copied", f"orcas:{name}/moved")
    run("check", "--download", changed, f"orcas:{name}/moved")
    assert run("lsf", "-R", "--files-only", f"orcas:{name}/copied") == ""
    assert run("cat", "--offset", "5", "--count", "7", f"orcas:{name}/moved/large", text=False) == pattern(9 << 20, 99)[5:12]
    run("rcat", f"orcas:{name}/streamed", input=pattern(7 << 20, 7), text=False)
    assert run("cat", f"orcas:{name}/streamed", text=False) == pattern(7 << 20, 7)
    listed = json.loads(run("lsjson", "-R", "--hash", f"orcas:{name}/moved/docs"))
    assert {o["Path"] for o in listed if not o["IsDir"]} == set(files(tree / "docs"))
    assert int(run("size", "--json", f"orcas:{name}/tree").split('"bytes":')[1].split(",")[0].strip("}\n")) == sum(map(len, files(changed).values()))
    run("purge", f"orcas:{name}")


def test_rclone_versions(rclone, name, tmp_path):
    run = rclone
    run("mkdir", f"orcas:{name}")
    assert run("backend", "versioning", f"orcas:{name}").strip().strip('"') in ("Unversioned", "")
    run("backend", "versioning", f"orcas:{name}", "Enabled")
    (tmp_path / "a.txt").write_bytes(b"one")
    run("copyto", tmp_path / "a.txt", f"orcas:{name}/a.txt")
    (tmp_path / "a.txt").write_bytes(b"two, which is longer")
    run("copyto", tmp_path / "a.txt", f"orcas:{name}/a.txt")
    listed = run("lsf", "--s3-versions", f"orcas:{name}").split()
    assert len(listed) == 2 and "a.txt" in listed, listed
    old = next(n for n in listed if n != "a.txt")
    assert run("cat", "--s3-versions", f"orcas:{name}/{old}") == "one"
    run("deletefile", f"orcas:{name}/a.txt")
    assert run("lsf", f"orcas:{name}") == ""
    run("backend", "cleanup-hidden", f"orcas:{name}")
    assert run("lsf", "--s3-versions", f"orcas:{name}").split() == []
    run("purge", f"orcas:{name}")


def test_restic(programs, tree, name, s3, tmp_path):
    def run(*a):
        return programs.run("restic", "-r", f"s3:{programs.server.endpoint}/{name}/repo", *a, env={"RESTIC_PASSWORD": "p", "RESTIC_PROGRESS_FPS": "0.1"})

    run("init")
    run("backup", "--host", "h", tree)
    changed = tmp_path / "t" / "tree"
    shutil.copytree(tree, changed)
    (changed / "large").write_bytes(pattern(11 << 20, 4))
    shutil.rmtree(changed / "docs")
    run("backup", "--host", "h", changed)
    assert len(json.loads(run("snapshots", "--json"))) == 2
    first = json.loads(run("snapshots", "--json"))[0]["short_id"]
    run("restore", first, "--target", tmp_path / "one")
    same(tree, tmp_path / "one" / str(tree).lstrip("/"))
    run("forget", first, "--prune")
    run("check", "--read-data")
    run("restore", "latest", "--target", tmp_path / "two")
    same(changed, tmp_path / "two" / str(changed).lstrip("/"))


def s3cmd(programs):
    host, tls = programs.env["HOST"], bool(programs.server.ca)
    config = programs.home / "s3cfg"
    config.write_text(
        f"[default]\naccess_key = {programs.server.access}\nsecret_key = {programs.server.secret}\nhost_base = {host}\nhost_bucket = {host}\n"
        f"use_https = {tls}\nca_certs_file = {programs.server.ca or ''}\nmultipart_chunk_size_mb = 5\n")
    return lambda *a: programs.run("s3cmd", "-c", config, *a)


def test_s3cmd(programs, tree, name, s3, tmp_path):
    run = s3cmd(programs)
    run("mb", f"s3://{name}")
    run("sync", f"{tree}/", f"s3://{name}/tree/")
    (tmp_path / "back").mkdir()
    run("sync", f"s3://{name}/tree/", f"{tmp_path}/back/")
    same(tree, tmp_path / "back")
    assert "large" in run("ls", f"s3://{name}/tree/")
    run("put", tree / "large", f"s3://{name}/big", "--mime-type", "text/x-test")
    assert "text/x-test" in run("info", f"s3://{name}/big")
    run("cp", f"s3://{name}/big", f"s3://{name}/big2")
    run("mv", f"s3://{name}/big2", f"s3://{name}/big3")
    run("get", f"s3://{name}/big3", tmp_path / "big3")
    assert (tmp_path / "big3").read_bytes() == (tree / "large").read_bytes()
    run("modify", "--add-header", "x-amz-meta-colour:blue", f"s3://{name}/big")
    assert "blue" in run("info", f"s3://{name}/big")
    run("du", f"s3://{name}")
    run("del", "--recursive", "--force", f"s3://{name}")
    assert run("ls", f"s3://{name}") == ""
    run("rb", f"s3://{name}")


def test_s4cmd(programs, tree, name, s3, tmp_path):
    def run(*a):
        more = {"S3_ACCESS_KEY": programs.server.access, "S3_SECRET_KEY": programs.server.secret}
        python = INSTALLED / "venv" / "bin" / "python"
        return programs.run(python, INSTALLED / "venv" / "bin" / "s4cmd.py", "--endpoint-url", programs.server.endpoint, *a, env=more)

    run("mb", f"s3://{name}")
    run("put", "-r", tree / "small", f"s3://{name}/")
    run("put", "--multipart-split-size", 5 << 20, "--max-singlepart-upload-size", 6 << 20, tree / "large", f"s3://{name}/large")
    run("get", "-r", f"s3://{name}/small", tmp_path / "back")
    same(tree / "small", tmp_path / "back")
    run("get", "--multipart-split-size", 5 << 20, f"s3://{name}/large", tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == (tree / "large").read_bytes()
    run("cp", f"s3://{name}/large", f"s3://{name}/copy")
    run("mv", f"s3://{name}/copy", f"s3://{name}/moved")
    assert "moved" in run("ls", f"s3://{name}/")
    run("dsync", "-r", f"s3://{name}/small", tmp_path / "synced")
    same(tree / "small", tmp_path / "synced")
    run("del", "-r", f"s3://{name}/")
    assert run("ls", "-r", f"s3://{name}").strip() == ""


def test_debian_awscli(programs, tree, name, s3, tmp_path):
    def run(*a):
        return programs.run("/usr/bin/aws", "--endpoint-url", programs.server.endpoint, *a)

    run("s3", "mb", f"s3://{name}")
    run("s3", "sync", tree, f"s3://{name}/tree")
    run("s3", "sync", f"s3://{name}/tree", tmp_path / "back")
    same(tree, tmp_path / "back")
    run("s3", "mv", f"s3://{name}/tree/large", f"s3://{name}/moved")
    run("s3", "rm", "--recursive", f"s3://{name}/tree")
    assert run("s3", "ls", "--recursive", f"s3://{name}").split()[-1] == "moved"
    run("s3", "rb", "--force", f"s3://{name}")


def test_s3fs_fuse(programs, tree, name, s3, tmp_path):
    if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        pytest.skip("a mount needs root and /dev/fuse")
    s3.create_bucket(Bucket=name)
    mount = tmp_path / "mount"
    mount.mkdir()
    secret = programs.home / "passwd"
    secret.write_text(f"{programs.server.access}:{programs.server.secret}")
    secret.chmod(0o600)
    more = {"CURL_CA_BUNDLE": programs.server.ca} if programs.server.ca else {}
    programs.run("s3fs", name, mount, "-o", f"url={programs.server.endpoint},passwd_file={secret},endpoint=us-east-1,use_path_request_style", env=more)
    try:
        deadline = time.monotonic() + 60
        while not os.path.ismount(mount) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert os.path.ismount(mount)
        shutil.copytree(tree / "small", mount / "small", copy_function=shutil.copyfile)
        shutil.copyfile(tree / "large", mount / "large")
        os.rename(mount / "small/1", mount / "renamed")
        with open(mount / "large", "r+b") as f:
            f.seek(1 << 20)
            f.write(b"changed in the middle")
    finally:
        subprocess.run(["fusermount", "-u", mount], check=False)
        subprocess.run(["umount", mount], check=False, capture_output=True)
    want = bytearray((tree / "large").read_bytes())
    want[1 << 20:(1 << 20) + 21] = b"changed in the middle"
    deadline = time.monotonic() + 60
    while s3.get_object(Bucket=name, Key="large")["Body"].read() != want:  # the unmount writes buffered data
        assert time.monotonic() < deadline
        time.sleep(0.2)
    one = files(tree / "small/1")
    for path, body in one.items():
        assert s3.get_object(Bucket=name, Key=f"renamed/{path}")["Body"].read() == body
