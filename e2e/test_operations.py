"""Commands of operators: reclaim, scrub, fsck, backup, restore, rebuild; and relaxed durability, with the server as a
process."""

import io
import json
import os
import re
import subprocess

from conftest import BINARY, HANG_SECONDS, pattern


def orcas(server, *arguments, status=0):
    """Runs the binary with the server's credentials."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))}
    environ |= {"ORCAS_ROOT_ACCESS_KEY": server.access, "ORCAS_ROOT_SECRET_KEY": server.secret}
    done = subprocess.run([str(BINARY), *map(str, arguments)], env=environ, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == status, f"orcas {arguments}: {done.returncode} {done.stdout}{done.stderr}"
    return done


def admin(server):
    return re.search(r"admin\s+http://(\S+)", server.banner).group(1)


def block_bytes(data):
    return sum(f.stat().st_size for f in (data / "blocks").rglob("*") if f.is_file())


class Objects:
    """The objects that a bucket should have."""

    def __init__(self, server, bucket="operations"):
        self.bucket, self.want = bucket, {}
        server.client().create_bucket(Bucket=bucket)

    def churn(self, server, turn):
        s3 = server.client()
        for i in range(40):
            self.put(s3, f"small/{i}", pattern(3000 + 37 * i + turn))
        self.put(s3, "large", pattern(700_000 + turn))
        s3.delete_object(Bucket=self.bucket, Key=f"small/{turn}")
        del self.want[f"small/{turn}"]
        s3.copy_object(Bucket=self.bucket, Key=f"copy/{turn}", CopySource={"Bucket": self.bucket, "Key": "large"})
        self.want[f"copy/{turn}"] = self.want["large"]
        upload = s3.create_multipart_upload(Bucket=self.bucket, Key="parts")["UploadId"]
        bodies = [pattern(5 << 20), pattern(1000 + turn)]
        parts = [
            {"PartNumber": n, "ETag": s3.upload_part(Bucket=self.bucket, Key="parts", UploadId=upload, PartNumber=n, Body=body)["ETag"]}
            for n, body in enumerate(bodies, 1)
        ]
        s3.complete_multipart_upload(Bucket=self.bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
        self.want["parts"] = b"".join(bodies)

    def put(self, s3, key, body):
        s3.put_object(Bucket=self.bucket, Key=key, Body=io.BytesIO(body), Metadata={"n": str(len(body))})
        self.want[key] = body

    def check(self, server):
        s3 = server.client()
        listed = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket) for o in page.get("Contents", [])]
        assert listed == sorted(self.want)
        for key, body in self.want.items():
            assert s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() == body, key


def test_reclaim_scrub_and_fsck_of_a_running_server(start, tmp_path):
    s = start("--admin-address", "127.0.0.1:0", data=tmp_path / "d")
    objects = Objects(s)
    for turn in range(6):
        objects.churn(s, turn)
    before = block_bytes(s.data)
    done = orcas(s, "admin", "reclaim", "--wait", "--admin-address", admin(s), "--json")
    report = json.loads(done.stdout)
    assert report["full"] and report["bytes_freed"] > 0 and not report.get("error")
    live = sum({id(body): len(body) for body in objects.want.values()}.values())
    assert block_bytes(s.data) < before and block_bytes(s.data) < 1.15 * live + 200_000
    objects.check(s)
    done = orcas(s, "admin", "scrub", "--wait", "--admin-address", admin(s))
    assert "damaged: 0" in done.stdout
    orcas(s, "admin", "fsck", "--content", "--admin-address", admin(s))
    done = orcas(s, "fsck", "--data", s.data, status=1)
    assert "uses" in done.stderr and "orcas admin fsck" in done.stderr
    assert s.stop() == 0
    orcas(s, "fsck", "--data", s.data, "--content")


def test_damage_is_found_and_named(start, tmp_path):
    s = start("--admin-address", "127.0.0.1:0", data=tmp_path / "d")
    objects = Objects(s)
    objects.churn(s, 0)
    block = max((s.data / "blocks").rglob("*.large"), key=lambda f: f.stat().st_size)
    with open(block, "r+b") as f:
        f.seek(block.stat().st_size // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    done = orcas(s, "admin", "scrub", "--wait", "--admin-address", admin(s), status=1)
    assert "parts" in done.stdout
    done = orcas(s, "admin", "fsck", "--content", "--admin-address", admin(s), status=1)
    assert "parts" in done.stdout
    assert s.stop() == 0


def test_backup_of_a_running_server_and_restore(start, tmp_path):
    s = start("--admin-address", "127.0.0.1:0", data=tmp_path / "d")
    objects = Objects(s)
    objects.churn(s, 0)
    orcas(s, "backup", tmp_path / "b", "--data", s.data, "--admin-address", admin(s))
    done = orcas(s, "backup", tmp_path / "b", "--data", s.data, "--admin-address", admin(s), "--json")
    second = json.loads(done.stdout)
    assert second["copied_bytes"] < second["bytes"] / 100, "the store has not changed, so hardly any bytes may be copied"
    kept = dict(objects.want)
    objects.churn(s, 1)
    orcas(s, "backup", tmp_path / "b", "--check")
    orcas(s, "restore", tmp_path / "b", "--data", tmp_path / "again")
    again = start(data=tmp_path / "again")
    now, objects.want = objects.want, kept
    objects.check(again)
    objects.want = now
    objects.check(s)
    assert again.stop() == 0 and s.stop() == 0


def test_rebuild_of_a_lost_database(start, tmp_path):
    s = start("--admin-address", "127.0.0.1:0", data=tmp_path / "d")
    objects = Objects(s)
    objects.churn(s, 0)
    orcas(s, "admin", "reclaim", "--wait", "--admin-address", admin(s))
    objects.churn(s, 1)
    s.kill()
    for f in s.data.glob("metadata.db*"):
        f.unlink()
    orcas(s, "rebuild", "--data", s.data)
    orcas(s, "fsck", "--data", s.data, "--content")
    again = start(data=s.data)
    objects.check(again)
    for f in s.data.glob("metadata.db*"):  # a start rebuilds the database too
        f.unlink()
    again.kill()
    for f in s.data.glob("metadata.db*"):
        f.unlink()
    last = start(data=s.data)
    objects.check(last)
    assert last.stop() == 0


def test_a_damaged_database_is_rebuilt_on_request(start, tmp_path):
    s = start(data=tmp_path / "d")
    objects = Objects(s)
    objects.churn(s, 0)
    assert s.stop() == 0
    database = s.data / "metadata.db"
    with open(database, "r+b") as f:
        for page in range(1, database.stat().st_size // 4096):
            f.seek(4096 * page)
            f.write(b"\xff" * 64)
    done = orcas(s, "fsck", "--data", s.data, status=1)
    assert "rebuild" in done.stdout + done.stderr
    orcas(s, "rebuild", "--data", s.data)
    again = start(data=s.data)
    objects.check(again)
    assert again.stop() == 0


def test_relaxed_durability(start, tmp_path):
    s = start(data=tmp_path / "d", env={"ORCAS_DURABILITY": "relaxed", "ORCAS_WRITE_BUFFER_WINDOW_SEC": "2"})
    assert "relaxed" in s.banner and "2s" in s.banner
    assert json.loads(s.http("GET", "/-/health/ready").data)["durability"] == "relaxed"
    objects = Objects(s)
    objects.churn(s, 0)
    s.kill()
    again = start(data=s.data)  # strict from here on
    objects.check(again)
    assert json.loads(again.http("GET", "/-/health/ready").data)["durability"] == "strict"
    assert again.stop() == 0
