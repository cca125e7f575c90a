"""Libraries and servers that keep their data in S3. Each stores data, reads it back and compares it."""

import contextlib
import hashlib
import json
import random
import socket
import sqlite3
import subprocess
import time
import uuid

import pytest
import urllib3

from conftest import pattern
from program import HERE, INSTALLED, programs  # noqa: F401


@pytest.fixture
def name():
    return "prog-" + uuid.uuid4().hex[:16]


@pytest.mark.parametrize("script", ["use_minio.py", "use_s3fs.py", "use_tables.py"])
def test_python(programs, name, script):
    programs.python(script, name)


def test_old_boto3(programs, name):
    programs.python("use_old_boto3.py", name, venv="old")


def test_javascript(programs, name):
    script = INSTALLED / "use_sdk.mjs"  # next to the modules that it imports
    script.write_bytes((HERE / "use_sdk.mjs").read_bytes())
    programs.run("node", script, name)


def free_port():
    """Return a free port below the range of outgoing connections, one of which could take it before the server does."""
    while True:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(10_000, 32_768)))
            return s.getsockname()[1]


def test_docker_registry(programs, name, s3, tmp_path):
    s3.create_bucket(Bucket=name)
    programs.without_bundle()
    port = free_port()
    (tmp_path / "config.yml").write_text(json.dumps({
        "version": "0.1", "log": {"level": "warn"}, "http": {"addr": f"127.0.0.1:{port}"},
        "storage": {"delete": {"enabled": True}, "redirect": {"disable": True}, "s3": {
            "region": "us-east-1", "regionendpoint": programs.server.endpoint, "bucket": name, "chunksize": 5 << 20,
            "accesskey": programs.server.access, "secretkey": programs.server.secret, "secure": bool(programs.server.ca)}}}))
    try:
        registry = subprocess.Popen(["docker-registry", "serve", tmp_path / "config.yml"], env=programs.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        pytest.skip("docker-registry is not installed")
    try:
        push_and_pull(f"http://127.0.0.1:{port}", registry)
    finally:
        registry.kill()
        registry.communicate()
    assert any(o["Key"].endswith("/link") for o in s3.list_objects_v2(Bucket=name)["Contents"])


def push_and_pull(base, registry):
    pool = urllib3.PoolManager(retries=False)

    def call(method, url, status, **more):
        response = pool.request(method, url if url.startswith("http") else base + url, **more)
        assert response.status == status, f"{method} {url}: {response.status} {response.data[:500]}"
        return response

    deadline = time.monotonic() + 60
    while True:
        try:
            call("GET", "/v2/", 200)
            break
        except urllib3.exceptions.HTTPError:
            assert registry.poll() is None and time.monotonic() < deadline, registry.stderr.read()
            time.sleep(0.1)

    def push(body):
        """Pushes a blob in chunks, so that the registry appends to stored data."""
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        url = call("POST", "/v2/image/blobs/uploads/", 202).headers["Location"]
        for at in range(0, len(body), 8 << 20):
            chunk = body[at:at + (8 << 20)]
            headers = {"Content-Type": "application/octet-stream", "Content-Range": f"{at}-{at + len(chunk) - 1}"}
            url = call("PATCH", url, 202, body=chunk, headers=headers).headers["Location"]
        call("PUT", f"{url}&digest={digest}", 201)
        return {"mediaType": "application/octet-stream", "size": len(body), "digest": digest}

    layers = [push(pattern(20 << 20, 1)), push(pattern(1000, 2))]
    config = push(b"{}")
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers}).encode()
    call("PUT", "/v2/image/manifests/latest", 201, body=manifest, headers={"Content-Type": kind})
    got = call("GET", "/v2/image/manifests/latest", 200, headers={"Accept": kind})
    assert got.data == manifest
    for layer in layers + [config]:
        assert "sha256:" + hashlib.sha256(call("GET", f"/v2/image/blobs/{layer['digest']}", 200).data).hexdigest() == layer["digest"]
    assert json.loads(call("GET", "/v2/_catalog", 200).data) == {"repositories": ["image"]}
    assert json.loads(call("GET", "/v2/image/tags/list", 200).data)["tags"] == ["latest"]
    call("DELETE", f"/v2/image/manifests/{got.headers['Docker-Content-Digest']}", 202)
    call("GET", "/v2/image/manifests/latest", 404, headers={"Accept": kind})


def test_litestream(programs, name, s3, tmp_path):
    """A database that is replicated while it is in use can be restored from the bucket."""
    s3.create_bucket(Bucket=name)
    database, config = tmp_path / "db.sqlite", tmp_path / "litestream.yml"
    config.write_text(json.dumps({"dbs": [{"path": str(database), "replicas": [{
        "type": "s3", "bucket": name, "path": "db", "endpoint": programs.server.endpoint, "region": "us-east-1", "force-path-style": True, "sync-interval": "100ms",
        "access-key-id": programs.server.access, "secret-access-key": programs.server.secret}]}]}))
    program = INSTALLED / "bin" / "litestream"
    if not program.exists():
        pytest.skip("litestream is not installed")
    db = sqlite3.connect(database)
    db.execute("pragma journal_mode = wal")
    db.execute("create table t (n integer, body blob)")
    db.commit()
    replica = subprocess.Popen([program, "replicate", "-config", config], env=programs.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for n in range(50):
            db.execute("insert into t values (?, ?)", (n, pattern(5000, n)))
            db.commit()
            time.sleep(0.02)
        want = db.execute("select * from t order by n").fetchall()
        back = tmp_path / "back.sqlite"
        deadline = time.monotonic() + 120
        while True:
            back.unlink(missing_ok=True)
            programs.run(program, "restore", "-config", config, "-o", back, database, check=False)
            if back.exists():
                with sqlite3.connect(back) as restored:
                    if restored.execute("select * from t order by n").fetchall() == want:
                        break
            assert time.monotonic() < deadline and replica.poll() is None
            time.sleep(0.2)
    finally:
        replica.kill()
        replica.wait()
        db.close()
