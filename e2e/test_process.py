"""The server as a process: command line, banner, files, certificates, shutdown and restart."""

import http.client
import json
import os
import pty
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time

import pytest
from botocore.exceptions import ClientError

from conftest import BINARY, HANG_SECONDS, error_of, pattern


NO_ADMIN = ("--admin-address", "none")  # a user's own server may listen on the default port, 9001


def orcas(*arguments, env=None):
    """Runs the binary until it exits."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ORCAS_")} | (env or {})
    return subprocess.run([str(BINARY), *map(str, arguments)], env=environ, capture_output=True, text=True, timeout=HANG_SECONDS)


def test_version_and_help():
    done = orcas("version")
    assert done.returncode == 0 and re.fullmatch(
        r"orcas \S+\n(commit [0-9a-f]+(\+dirty)?(, \S+)?\n)?on-disk format \d+ \(.*\)\nencryption by (vector )?AES, go\S+, \S+\n", done.stdout)
    done = orcas("server", "--help")
    assert done.returncode == 0
    for flag in ("--data", "--address", "--tls-cert", "--tls-key", "--tls-self-signed"):
        assert flag in done.stdout


@pytest.mark.parametrize("arguments", [
    ["serve"], ["server"], ["server", "--data"], ["server", "--data", "d", "--port", "1"], ["server", "--data", "d", "--address", "9000"],
    ["server", "--data", "d", "--tls-cert", "c"], ["server", "--data", "d", "--tls-key", "k"],
    ["server", "--data", "d", "--tls-self-signed", "--tls-cert", "c", "--tls-key", "k"], ["server", "--data", "d", "extra"],
])
def test_bad_command_lines(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = orcas(*arguments)
    assert done.returncode == 2, done
    assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("orcas: "), done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name,value", [
    ("ORCAS_DURABILITY", "lax"), ("ORCAS_DURABILITY", "none"), ("ORCAS_MAX_WRITE_BUFFER_COUNT", "many"), ("ORCAS_MIN_FREE", "1G"),
    ("ORCAS_BATCH_WRITE_ENABLED", "perhaps"), ("ORCAS_BUCKETS", "Bad_Name"), ("ORCAS_ROOT_ACCESS_KEY", "alone"), ("ORCAS_REGION", "a b"),
])
def test_bad_settings_name_their_variable(name, value, tmp_path):
    done = orcas("server", "--data", tmp_path / "d", "--address", "127.0.0.1:0", *NO_ADMIN, env={name: value})
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done
    assert (name if name != "ORCAS_ROOT_ACCESS_KEY" else "ORCAS_ROOT_SECRET_KEY") in done.stderr
    assert not (tmp_path / "d").exists()


def test_settings_without_effect_cause_a_warning(start):
    s = start(env={"ORCAS_WRITE_BUFFER_WINDOW_SEC": "3"})
    assert s.stop() == 0
    warnings = [json.loads(line)["msg"] for line in s.log.splitlines() if json.loads(line)["level"] == "WARN"]
    assert any("ORCAS_WRITE_BUFFER_WINDOW_SEC" in w for w in warnings)


def test_starts_that_fail(start, tmp_path):
    first = start()
    address = first.endpoint.removeprefix("http://")
    held = orcas("server", "--data", first.data, "--address", "127.0.0.1:0", *NO_ADMIN)
    taken = orcas("server", "--data", tmp_path / "other", "--address", address, *NO_ADMIN)
    taken_too = orcas("server", "--data", tmp_path / "other", "--address", "127.0.0.1:0", "--admin-address", address)
    (tmp_path / "file").write_text("not a directory")
    unusable = orcas("server", "--data", tmp_path / "file", "--address", "127.0.0.1:0", *NO_ADMIN)
    foreign = orcas("server", "--data", tmp_path, "--address", "127.0.0.1:0", *NO_ADMIN)
    certificate = orcas(
        "server", "--data", tmp_path / "other", "--address", "127.0.0.1:0", *NO_ADMIN, "--tls-cert", "no.crt", "--tls-key", "no.key")
    for done, says in (
            (held, f"process {first.process.pid} already uses the data directory {first.data}"),
            (taken, f"--address {address}: address already in use"),
            (taken_too, f"--admin-address {address}: address already in use"),
            (unusable, f"{tmp_path / 'file'} is a file"),
            (foreign, f"{tmp_path} is not empty and is not an ORCAS data directory"),
            (certificate, "--tls-cert no.crt")):
        assert done.returncode == (2 if done is certificate else 1) and says in done.stderr and "internal error" not in done.stderr, done
        plain = [line for line in done.stderr.splitlines() if not line.startswith("{")]
        assert len(plain) == 1 and plain[0].startswith("orcas: "), done.stderr
    first.client().list_buckets()  # the first server still works


def test_idle_connections_do_not_keep_clients_out(start, tmp_path):
    """A low limit on open files limits the number of connections, here to 16. Clients that hold connections and send
    nothing, or half a header, lose them."""
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n 256\nexec {BINARY} "$@"\n')
    limited.chmod(0o755)
    s = start(binary=limited)
    assert '"connections":16' in s.log
    host, port = s.endpoint.removeprefix("http://").split(":")
    held = []
    for i in range(400):
        held.append(socket.create_connection((host, int(port)), timeout=HANG_SECONDS))
        if i % 2:
            held[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-")
    client = s.client()
    client.create_bucket(Bucket="bucket")
    for i in range(50):
        client.put_object(Bucket="bucket", Key=str(i), Body=b"content")
    assert held[0].recv(1) == b""  # closed by the server
    for c in held:
        c.close()


def on_a_terminal(tmp_path, env=None):
    """Starts a server with its standard error on a terminal, sends two requests and stops it; returns the output on the
    terminal."""
    ours, theirs = pty.openpty()
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | (env or {})
    process = subprocess.Popen(
        [str(BINARY), "server", "--data", str(tmp_path / "data"), "--address", "127.0.0.1:0", "--admin-address", "none"],
        env=environ | {"ORCAS_MIN_FREE": "0", "ORCAS_UNKNOWN": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = []

    def collect():
        try:
            while text := os.read(ours, 4096):
                shown.append(text)
        except OSError:
            pass  # the other end is closed

    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    for line in process.stdout:
        if found := re.match(r"\s*endpoint\s+http://(\S+):(\d+)", line):
            connection = http.client.HTTPConnection(found.group(1), int(found.group(2)))
        if re.match(r"\s*credentials\s", line):
            break
    for _ in range(2):
        connection.request("GET", "/no-bucket/key")
        assert connection.getresponse().read()
    connection.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_SECONDS) == 0
    process.stdout.close()
    reader.join()
    os.close(ours)
    return b"".join(shown).decode()


def test_log_on_a_terminal(tmp_path):
    shown = on_a_terminal(tmp_path)
    assert re.search(r"(?m)^\d\d:\d\d:\d\d WARN  ORCAS_UNKNOWN is not a setting", shown), shown
    assert re.search(r"(?m)^\d\d:\d\d:\d\d INFO  requests requests=2 refused=2 failed=0 ", shown), shown
    assert "stopping" in shown and "stopped" in shown
    assert "{" not in shown and "GET" not in shown and "store open" not in shown, shown

    shown = on_a_terminal(tmp_path, {"ORCAS_LOG": "requests", "ORCAS_LOG_FORMAT": "json"})
    requests = [line for line in map(json.loads, shown.splitlines()) if line["msg"] == "request"]
    assert [r["status"] for r in requests] == [404, 404], shown
    assert on_a_terminal(tmp_path, {"ORCAS_LOG": "off"}) == ""


def test_newer_data_is_refused(start):
    s = start()
    assert s.stop() == 0
    database = sqlite3.connect(s.data / "metadata.db")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    assert version > 0
    database.execute(f"PRAGMA user_version = {version + 1000}")
    database.close()
    done = orcas("server", "--data", s.data, "--address", "127.0.0.1:0", *NO_ADMIN)
    plain = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert done.returncode == 1 and len(plain) == 1 and "metadata.db" in plain[0] and str(version + 1000) in plain[0], done.stderr


def test_a_terminal_shows_generated_credentials(tmp_path):
    ours, theirs = pty.openpty()
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))} | {"ORCAS_MIN_FREE": "0"}
    process = subprocess.Popen([str(BINARY), "server", "--data", str(tmp_path / "data"), "--address", "127.0.0.1:0", *NO_ADMIN],
                               env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    while b"s3 ls s3://my-bucket/" not in shown:  # the last line
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_SECONDS) == 0
    os.close(ours)
    kept = json.loads((tmp_path / "data" / "root-credentials.json").read_text())
    keys = dict(re.findall(r"export (AWS_\w+)=(\S+)", shown.decode()))
    assert (keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]) == (kept["accessKey"], kept["secretKey"])


def test_credentials_are_generated_and_saved(start):
    s = start(access=None)
    keys = json.loads((s.data / "root-credentials.json").read_text())
    assert len(keys["accessKey"]) == 20 and len(keys["secretKey"]) == 40
    assert f"aws --endpoint-url {s.endpoint} s3 mb" in s.banner
    assert keys["secretKey"] not in s.banner + s.log  # the output is not a terminal
    s.access, s.secret = keys["accessKey"], keys["secretKey"]
    s.client().create_bucket(Bucket="mine")
    with pytest.raises(ClientError) as info:
        s.client(aws_secret_access_key="x" * 40).list_buckets()
    assert error_of(info)[0] == "SignatureDoesNotMatch"
    kept = s.data / "root-credentials.json"
    assert kept.stat().st_mode & 0o777 == 0o600 and s.data.stat().st_mode & 0o777 == 0o700
    assert s.stop() == 0

    again = start(access=None)
    assert s.secret not in again.banner and str(kept) in again.banner
    again.access, again.secret = s.access, s.secret
    assert [b["Name"] for b in again.client().list_buckets()["Buckets"]] == ["mine"]
    assert again.stop() == 0

    given = start(access="given-access", secret="given-secret")
    assert given.secret not in given.banner and "environment" in given.banner
    assert [b["Name"] for b in given.client().list_buckets()["Buckets"]] == ["mine"]
    assert given.stop() == 0
    for server in (s, again, given):
        assert server.secret not in server.log
        for line in server.log.splitlines():
            json.loads(line)


def test_restart_keeps_everything(start):
    s = start(env={"ORCAS_BUCKETS": "one,two"})
    client = s.client()
    bodies = {f"k/{i}": pattern(i * i * 37, i) for i in range(60)} | {"large": pattern(12 << 20)}
    for key, body in bodies.items():
        client.put_object(Bucket="one", Key=key, Body=body, Metadata={"key": key})
    client.delete_object(Bucket="one", Key="k/7")
    del bodies["k/7"]
    client.copy_object(Bucket="two", Key="copy", CopySource="one/large")
    uid = client.create_multipart_upload(Bucket="two", Key="multi")["UploadId"]
    part = client.upload_part(Bucket="two", Key="multi", UploadId=uid, PartNumber=1, Body=b"first half")
    before = client.list_objects_v2(Bucket="one")["Contents"]
    for stop in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        assert s.stop(stop) == (-9 if stop == signal.SIGKILL else 0), s.log
        s = start(env={"ORCAS_BUCKETS": "one,two"})
        client = s.client()
        assert client.list_objects_v2(Bucket="one")["Contents"] == before
        for key, body in bodies.items():
            got = client.get_object(Bucket="one", Key=key)
            assert got["Body"].read() == body and got["Metadata"] == {"key": key}
        assert client.get_object(Bucket="two", Key="copy")["Body"].read() == bodies["large"]
        with pytest.raises(ClientError):
            client.head_object(Bucket="one", Key="k/7")
    more = client.upload_part(Bucket="two", Key="multi", UploadId=uid, PartNumber=1, Body=b"whole")
    assert more["ETag"] != part["ETag"]
    client.complete_multipart_upload(Bucket="two", Key="multi", UploadId=uid,
                                     MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": more["ETag"]}]})
    assert client.get_object(Bucket="two", Key="multi")["Body"].read() == b"whole"


def raw_put(s, key, size):
    """Begins a PUT with a presigned URL and sends everything except the body. Returns the connection, on which the server
    waits for the body."""
    url = s.client(config={"signature_version": "s3v4"}).generate_presigned_url("put_object", Params={"Bucket": "bucket", "Key": key})
    host, port = s.endpoint.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=HANG_SECONDS)
    connection.putrequest("PUT", url.removeprefix(s.endpoint))
    connection.putheader("Content-Length", str(size))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    interim = b""
    while not interim.endswith(b"\r\n\r\n"):
        interim += connection.sock.recv(1)
    assert interim.startswith(b"HTTP/1.1 100 ")
    return connection


def wait_until(condition):
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def refuses_connections(s):
    host, port = s.endpoint.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        return False
    except OSError:
        return True


def test_shutdown_finishes_requests_in_flight(start):
    s = start(env={"ORCAS_BUCKETS": "bucket"})
    connection = raw_put(s, "slow", 200_000)
    connection.send(b"a" * 100_000)
    idle = socket.create_connection(tuple(s.endpoint.removeprefix("http://").split(":")))
    s.process.send_signal(signal.SIGTERM)
    wait_until(lambda: refuses_connections(s))
    assert s.process.poll() is None
    connection.send(b"b" * 100_000)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    assert s.stop(None) == 0, s.log
    idle.close()
    s = start()
    assert s.client().get_object(Bucket="bucket", Key="slow")["Body"].read() == b"a" * 100_000 + b"b" * 100_000


def test_second_signal_ends_the_process(start):
    s = start(env={"ORCAS_BUCKETS": "bucket"})
    connection = raw_put(s, "never", 10)
    s.process.send_signal(signal.SIGINT)
    wait_until(lambda: refuses_connections(s))
    began = time.monotonic()
    s.process.send_signal(signal.SIGINT)
    assert s.stop(None) == 1
    assert time.monotonic() - began < 25  # a normal shutdown gives requests in flight 30 seconds
    connection.close()
    s = start()
    assert "Contents" not in s.client().list_objects_v2(Bucket="bucket")


def test_truncated_body_changes_nothing(start):
    s = start(env={"ORCAS_BUCKETS": "bucket"})
    s.client().put_object(Bucket="bucket", Key="k", Body=b"before")
    for size, sent in ((100, 0), (100, 99), (1 << 20, 1000), (20 << 20, 19 << 20)):
        connection = raw_put(s, "k", size)
        connection.send(b"z" * sent)
        connection.close()
    client = s.client()
    assert s.stop() == 0
    assert s.log.count('"method":"PUT"') >= 5
    s = start()
    assert s.client().get_object(Bucket="bucket", Key="k")["Body"].read() == b"before"


def test_access_log(start):
    s = start(env={"ORCAS_BUCKETS": "bucket"})
    client = s.client()
    client.put_object(Bucket="bucket", Key="logged", Body=b"12345")
    response = client.get_object(Bucket="bucket", Key="logged")
    with pytest.raises(ClientError):
        client.get_object(Bucket="bucket", Key="missing")
    secret_url = s.client(config={"signature_version": "s3v4"}).generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "logged"})
    assert s.http("GET", secret_url).status == 200
    assert s.stop() == 0
    lines = [json.loads(line) for line in s.log.splitlines()]
    requests = [line for line in lines if line.get("key") == "logged"]
    assert [(r["method"], r["status"]) for r in requests] == [("PUT", 200), ("GET", 200), ("GET", 200)]
    assert requests[1]["id"] == response["ResponseMetadata"]["RequestId"]
    assert [r["status"] for r in lines if r.get("key") == "missing"] == [404]
    assert "Signature" not in s.log


@pytest.fixture
def pairs(start, tmp_path):
    """Two certificates with their keys, generated by two servers."""
    made = []
    for name in ("one", "two"):
        s = start("--tls-self-signed", data=tmp_path / name)
        assert s.stop() == 0
        made.append((s.data / "self-signed.crt", s.data / "self-signed.key"))
    return made


def served_certificate(s):
    host, port = s.endpoint.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


def test_certificate_is_reloaded(start, pairs, tmp_path):
    one, two = pairs
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text(one[0].read_text())
    key.write_text(one[1].read_text())
    s = start("--tls-cert", str(cert), "--tls-key", str(key), env={"ORCAS_BUCKETS": "bucket"})
    assert s.endpoint.startswith("https://")
    s.client(verify=str(cert)).list_buckets()
    assert served_certificate(s).strip() == one[0].read_text().strip()

    key.write_text(two[1].read_text())  # in the middle of a renewal, the certificate and the key do not match
    time.sleep(1.1)  # the server checks the files once a second
    assert served_certificate(s).strip() == one[0].read_text().strip()
    cert.write_text(two[0].read_text())
    wait_until(lambda: served_certificate(s).strip() == two[0].read_text().strip())
    s.client(verify=str(cert)).list_buckets()
    assert s.stop() == 0
    assert "certificate reloaded" in s.log


def test_self_signed_certificate_is_kept(start):
    s = start("--tls-self-signed")
    assert f"export AWS_CA_BUNDLE={s.ca}" in s.banner
    assert (s.data / "self-signed.key").stat().st_mode & 0o777 == 0o600
    first = served_certificate(s)
    s.client().list_buckets()
    assert s.stop() == 0
    s = start("--tls-self-signed")
    assert served_certificate(s) == first


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_versions_and_http2(start):
    s = start("--tls-self-signed")
    host, port = s.endpoint.removeprefix("https://").split(":")

    def handshake(**settings):
        context = ssl.create_default_context(cafile=s.ca)
        for name, value in settings.items():
            setattr(context, name, value)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as wrapped:
            return wrapped.version(), wrapped.selected_alpn_protocol()

    assert handshake() == ("TLSv1.3", "h2")
    assert handshake(maximum_version=ssl.TLSVersion.TLSv1_2) == ("TLSv1.2", "h2")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(minimum_version=ssl.TLSVersion.MINIMUM_SUPPORTED, maximum_version=ssl.TLSVersion.TLSv1_1)


def test_packing_can_be_disabled(start):
    s = start(env={"ORCAS_BATCH_WRITE_ENABLED": "false", "ORCAS_BUCKETS": "bucket"})
    client = s.client(config={"max_pool_connections": 8})
    bodies = {f"{i}": pattern(1000 * i, i) for i in range(20)}
    threads = [threading.Thread(target=client.put_object, kwargs=dict(Bucket="bucket", Key=k, Body=b)) for k, b in bodies.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    s.kill()
    s = start()  # with packing, the server can read objects written without it
    client = s.client()
    for key, body in bodies.items():
        assert client.get_object(Bucket="bucket", Key=key)["Body"].read() == body
