"""Watching a server: orcas admin status, top, trace, log, profile; orcas health; and the audit log."""

import gzip
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest

from conftest import BINARY, HANG_SECONDS, Server, pattern

ROOT = {"ORCAS_ROOT_ACCESS_KEY": "e2e-access-key", "ORCAS_ROOT_SECRET_KEY": "e2e-secret-key-0123456789"}


def environ():
    return {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | ROOT


def address(server):
    return re.search(r"admin\s+http://(\S+)", server.banner).group(1)


def admin(server, *arguments, status=0):
    done = subprocess.run([str(BINARY), "admin", *arguments, "--admin-address", address(server)],
                          env=environ(), capture_output=True, timeout=HANG_SECONDS)
    assert done.returncode == status, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}"
    return done


def eventually(holds):
    """Waits until holds() is true."""
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.01)


def audited(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Trace:
    """orcas admin trace --json as a process."""

    def __init__(self, server, *flags):
        self.process = subprocess.Popen([str(BINARY), "admin", "trace", "--json", *flags, "--admin-address", address(server)],
                                        env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def next(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        out, err = self.process.communicate(timeout=HANG_SECONDS)
        return self.process.returncode, out, err


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "data", "--admin-address", "127.0.0.1:0", env={
        "ORCAS_AUDIT_FILE": str(tmp_path / "audit.log"), "ORCAS_BUCKETS": "live"})
    server.audit = tmp_path / "audit.log"
    yield server
    if server.process.poll() is None:
        assert server.stop() == 0, server.log


def test_trace(server):
    """A trace shows requests that its filter selects, without secrets, and ends when the server stops."""
    trace = Trace(server, "--bucket", "live", "--operation", "GetObject")
    eventually(lambda: b"admin.follow" in gzip.decompress(admin(server, "profile", "goroutine", "--output", "-").stdout))
    s3 = server.client()
    body = pattern(5000)
    s3.put_object(Bucket="live", Key="photos/1", Body=body)
    assert s3.get_object(Bucket="live", Key="photos/1")["Body"].read() == body
    line = trace.next()
    assert (line["api"], line["operation"], line["bucket"], line["key"], line["status"]) == ("s3", "GetObject", "live", "photos/1", 200)
    assert line["out"] == len(body)
    assert line["access_key"] == server.access
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "live", "Key": "photos/1"})
    subprocess.run(["curl", "-sSf", "-o", "/dev/null", url], check=True, timeout=HANG_SECONDS)
    line = trace.next()
    assert line["key"] == "photos/1"
    assert "Signature" not in json.dumps(line)
    assert "reason" not in line
    assert subprocess.run(["curl", "-sSf", server.endpoint + "/live/photos/1?x-id=GetObject"], capture_output=True).returncode != 0
    line = trace.next()
    assert (line["status"], line["code"], line["reason"]) == (403, "AccessDenied", "authorization")
    assert server.stop() == 0
    status, out, err = trace.end()
    assert (status, out) == (1, "")
    assert "the server is stopping" in err


def test_top(server):
    top = subprocess.Popen([str(BINARY), "admin", "top", "--json", "--interval", "200ms", "--admin-address", address(server)],
                           env=environ(), stdout=subprocess.PIPE, text=True)
    json.loads(top.stdout.readline())
    s3 = server.client()
    for i in range(10):
        s3.put_object(Bucket="live", Key=str(i), Body=b"content")
    seen = 0
    while seen < 10:
        line = json.loads(top.stdout.readline())
        for row in line["buckets"]:
            assert row["name"] == "live"
            seen += row["requests"]
    assert seen == 10
    top.terminate()
    assert top.wait(HANG_SECONDS) == 0
    text = admin(server, "top", "--once", "--interval", "100ms").stdout.decode()
    assert re.match(r"\d\d:\d\d:\d\d  0 requests/s", text), text


def test_status_and_health(server):
    state = json.loads(admin(server, "status", "--json").stdout)
    assert state["state"] == "ready"
    assert [w for w in state["warnings"] if "the drive is" not in w["problem"]] == []  # the drive may be nearly full
    assert state["drive"]["total_bytes"] > 0
    assert [w["name"] for w in state["work"]] == ["reclaim", "snapshot", "scrub", "lifecycle", "survey"]
    assert all("last_success" in w for w in state["work"])
    assert state["scrub"]["found"] == state["scrub"]["repaired"] == state["scrub"]["damaged"] == 0
    admin(server, "scrub", "--wait")
    server.client().put_object(Bucket="live", Key="counted", Body=b"content")

    def surveyed():  # every few seconds
        held = json.loads(admin(server, "status", "--json").stdout)["store"]
        return held and (held["buckets"], held["objects"], held["versions"]) == (1, 1, 1) and held["space"]

    eventually(surveyed)
    state = json.loads(admin(server, "status", "--json").stdout)
    done = {w["name"]: w["last_success"] for w in state["work"]}
    assert done["scrub"] and done["survey"]
    space = state["store"]["space"]
    assert space["reclaimable_bytes"] == max(0, space["stored_bytes"] - space["live_bytes"])
    assert space["deduplication_ratio"] > 0 and space["compression_ratio"] > 0
    text = admin(server, "status").stdout.decode()
    assert re.search(r"^state +ready$", text, re.M), text
    assert re.search(r"^store +1 bucket, 1 object, 1 version$", text, re.M), text
    assert re.search(r"^scrub .*; last succeeded \d{4}-\d\d-\d\d .*; damage found: 0, repaired: 0, remaining: 0$", text, re.M), text
    endpoint = server.endpoint.removeprefix("http://")
    for where in (endpoint, address(server)):
        for flags in ([], ["--live"]):
            subprocess.run([str(BINARY), "health", "--address", where, *flags], check=True, timeout=HANG_SECONDS, env={})
    assert server.stop() == 0
    done = subprocess.run([str(BINARY), "health", "--address", endpoint], capture_output=True, text=True, timeout=HANG_SECONDS, env={})
    assert done.returncode == 1
    assert "is not healthy" in done.stderr


def test_log_level(server):
    s3 = server.client()
    assert admin(server, "log").stdout == b"requests\n"
    assert admin(server, "log", "--level", "errors").stdout == b"errors\n"
    s3.put_object(Bucket="live", Key="hidden", Body=b"")
    admin(server, "log", "--level", "requests")
    s3.put_object(Bucket="live", Key="logged", Body=b"")
    assert b"freed about" in admin(server, "cache", "flush").stdout
    assert s3.get_object(Bucket="live", Key="logged")["Body"].read() == b""
    assert server.stop() == 0
    assert '"logged"' in server.log
    assert '"hidden"' not in server.log


def test_profile(server, tmp_path):
    for name, flags in (("cpu", ["--seconds", "1"]), ("heap", []), ("goroutine", [])):
        out = tmp_path / name
        admin(server, "profile", name, *flags, "--output", str(out))
        assert len(gzip.decompress(out.read_bytes())) > 100
        assert out.stat().st_mode & 0o777 == 0o600


def test_audit(server):
    """Every change is recorded, by whoever makes it; reads are not. A file that was moved away is begun again."""
    s3 = server.client()
    s3.put_object(Bucket="live", Key="a", Body=b"content")
    s3.get_object(Bucket="live", Key="a")
    s3.copy_object(Bucket="live", Key="b", CopySource={"Bucket": "live", "Key": "a"})
    s3.delete_objects(Bucket="live", Delete={"Objects": [{"Key": "a"}, {"Key": "b"}]})
    admin(server, "user", "create", "alice")
    secret = json.loads(admin(server, "user", "add-key", "alice", "--json").stdout)["secret_key"]
    eventually(lambda: len(audited(server.audit)) == 8)
    got = [(r["api"], r["operation"], r.get("bucket"), r.get("key"), r.get("status")) for r in audited(server.audit)]
    assert got == [
        ("startup", "CreateBucket", "live", None, None),
        ("s3", "PutObject", "live", "a", 200), ("s3", "CopyObject", "live", "b", 200),
        ("s3", "DeleteObjects", "live", None, 200), ("s3", "DeleteObjects", "live", "a", 200), ("s3", "DeleteObjects", "live", "b", 200),
        ("admin", "CreateUser", None, None, 200), ("admin", "CreateUserKey", None, None, 200)]
    assert audited(server.audit)[2]["target"] == "live/a"
    assert secret not in server.audit.read_text() and server.secret not in server.audit.read_text()
    assert server.audit.stat().st_mode & 0o777 == 0o600
    server.audit.rename(server.audit.with_suffix(".moved"))
    s3.put_object(Bucket="live", Key="c", Body=b"content")
    eventually(lambda: server.audit.exists() and len(audited(server.audit)) == 1)
    assert audited(server.audit)[0]["key"] == "c"


def test_audit_webhook(tmp_path):
    """Records arrive with the token; those of a time when the receiver was unreachable arrive later, and requests do not wait."""
    got, fail = [], threading.Event()
    fail.set()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if fail.is_set() or self.headers["Authorization"] != "Bearer e2e-token":
                self.send_error(503)
                return
            got.extend(json.loads(line) for line in body.splitlines())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    token = tmp_path / "token"
    token.write_text("e2e-token\n")
    token.chmod(0o600)
    server = Server(tmp_path / "data", "--admin-address", "127.0.0.1:0", env={
        "ORCAS_AUDIT_WEBHOOK": f"http://127.0.0.1:{receiver.server_port}/audit", "ORCAS_AUDIT_WEBHOOK_TOKEN_FILE": str(token),
        "ORCAS_BUCKETS": "live"})
    s3 = server.client()
    for i in range(20):
        s3.put_object(Bucket="live", Key=str(i), Body=b"content")
        assert s3.get_object(Bucket="live", Key=str(i))["Body"].read() == b"content"

    def warned():
        return [w["problem"] for w in json.loads(admin(server, "status", "--json").stdout)["warnings"]]
    eventually(lambda: any("503" in w for w in warned()))
    eventually(lambda: "the audit webhook cannot be written" in server.log)
    fail.clear()
    eventually(lambda: len(got) >= 21)
    assert got[0]["api"] == "startup"
    assert [r["key"] for r in got[1:21]] == [str(i) for i in range(20)]
    assert server.stop() == 0
    receiver.shutdown()


def test_stop_with_an_unreachable_webhook(tmp_path):
    """The records that wait are lost, that of the new bucket included: the log and the final metrics say how many."""
    with socket.socket() as bound:  # nothing listens there
        bound.bind(("127.0.0.1", 0))
        server = Server(tmp_path / "data", "--admin-address", "127.0.0.1:0", env={
            "ORCAS_AUDIT_WEBHOOK": f"http://127.0.0.1:{bound.getsockname()[1]}/audit", "ORCAS_BUCKETS": "live"})
        for i in range(20):
            server.client().put_object(Bucket="live", Key=str(i), Body=b"content")
        assert server.stop() == 0
    [lost] = [line for line in map(json.loads, server.log.splitlines()) if "the server stops, and the records that waited" in line["msg"]]
    assert (lost["dropped"], lost["dropped_total"]) == (21, 21) and "connection refused" in lost["err"]
    assert 'orcas_audit_dropped_total{sink="webhook"} 21' in (server.data / "metrics.prom").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system requires root")
def test_audit_on_a_full_drive(tmp_path):
    """If the drive of the audit log is full, requests are served, the log says so, and drops are counted."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        server = Server(tmp_path / "data", "--admin-address", "127.0.0.1:0", env={
            "ORCAS_AUDIT_FILE": str(small / "audit.log"), "ORCAS_BUCKETS": "live"})
        s3 = server.client()
        for i in range(400):
            s3.put_object(Bucket="live", Key=f"key/{i}", Body=b"content")
        assert s3.get_object(Bucket="live", Key="key/399")["Body"].read() == b"content"
        eventually(lambda: b"no space left on device" in admin(server, "status", "--json").stdout)
        eventually(lambda: "the audit file cannot be written" in server.log)
        assert server.stop() == 0
        kept = audited(small / "audit.log")
        assert 0 < len(kept) < 400
        assert [r["key"] for r in kept if r["operation"] == "PutObject"] == [f"key/{i}" for i in range(len(kept) - 1)]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
