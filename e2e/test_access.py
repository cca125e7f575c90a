"""Access: signatures, presigned URLs, clocks, and requests without valid credentials."""

import datetime
import json
import re
import socket
import subprocess

import botocore.auth
import botocore.crt.auth
import pytest
from botocore.exceptions import ClientError

from conftest import HANG_SECONDS, error_of, pattern


@pytest.fixture
def signer(server):
    """Presigns with signature version 4; boto3's default in us-east-1 is still version 2."""
    return server.client(config={"signature_version": "s3v4"})


def test_wrong_credentials(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for access, secret, code in ((server.access, "wrong-secret-key", "SignatureDoesNotMatch"), ("NOSUCHKEY", server.secret, "InvalidAccessKeyId")):
        stranger = server.client(aws_access_key_id=access, aws_secret_access_key=secret)
        for call in (stranger.list_buckets, lambda: stranger.get_object(Bucket=bucket, Key="k"),
                     lambda: stranger.put_object(Bucket=bucket, Key="k", Body=b"y"), lambda: stranger.delete_object(Bucket=bucket, Key="k"),
                     lambda: stranger.create_bucket(Bucket="e2e-strange")):
            with pytest.raises(ClientError) as info:
                call()
            assert error_of(info) == (code, 403)
            assert server.secret not in str(info.value.response)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_anonymous_requests_are_denied(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method, path in (("GET", "/"), ("GET", f"/{bucket}"), ("GET", f"/{bucket}/k"), ("PUT", f"/{bucket}/k"), ("DELETE", f"/{bucket}/k"),
                         ("PUT", "/e2e-anonymous")):
        response = server.http(method, path, body=b"y" if method == "PUT" else None)
        assert response.status == 403 and b"<Code>AccessDenied</Code>" in response.data, (method, path, response.data)
        assert response.headers["x-amz-request-id"] and b"<RequestId>" in response.data
    response = server.http("GET", "/e2e-missing/k")  # as in S3, even anonymous requests learn that a bucket does not exist
    assert response.status == 404 and b"<Code>NoSuchBucket</Code>" in response.data
    head = server.http("HEAD", f"/{bucket}/k")
    assert head.status == 403 and head.data == b""
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_presigned_get(server, signer, s3, bucket):
    key = "a b/ü+%.txt"
    body = pattern(100_000)
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    url = signer.generate_presigned_url("get_object", Params={
        "Bucket": bucket, "Key": key, "ResponseContentType": "text/x-mine", "ResponseContentDisposition": 'attachment; filename="a b"'}, ExpiresIn=60)
    assert "X-Amz-Signature" in url
    response = server.http("GET", url)
    assert response.status == 200 and response.data == body
    assert response.headers["Content-Type"] == "text/x-mine" and response.headers["Content-Disposition"] == 'attachment; filename="a b"'
    assert server.http("GET", url, headers={"Range": "bytes=5-9"}).data == body[5:10]
    for forged in (url.replace("a%20b", "a%20c"), re.sub("X-Amz-Expires=60", "X-Amz-Expires=600", url), url[:-1] + ("0" if url[-1] != "0" else "1")):
        response = server.http("GET", forged)
        assert response.status == 403 and b"SignatureDoesNotMatch" in response.data, forged
    assert server.http("PUT", url, body=b"y").status == 403
    head = signer.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": key})
    assert server.http("HEAD", head).headers["Content-Length"] == str(len(body))


def test_presigned_put(server, signer, s3, bucket):
    body = pattern(200_000)
    url = signer.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "up load", "ContentType": "text/x-mine"}, ExpiresIn=60)
    assert server.http("PUT", url, body=body, headers={"Content-Type": "text/x-other"}).status == 403
    assert server.http("PUT", url, body=body, headers={"Content-Type": "text/x-mine"}).status == 200
    got = s3.get_object(Bucket=bucket, Key="up load")
    assert got["Body"].read() == body and got["ContentType"] == "text/x-mine"


@pytest.fixture
def clock(monkeypatch):
    """Returns a function that sets the clock of both boto3 signers off by some minutes."""
    real = botocore.auth.get_current_datetime

    def off_by(minutes):
        for module in (botocore.auth, botocore.crt.auth):
            monkeypatch.setattr(module, "get_current_datetime", lambda *a, **k: real(*a, **k) + datetime.timedelta(minutes=minutes))

    return off_by


def test_presigned_url_expires(server, signer, s3, bucket, clock):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    clock(-10)
    for seconds, status in ((300, 403), (3600, 200)):
        url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=seconds)
        response = server.http("GET", url)
        assert response.status == status, response.data
        if status == 403:
            assert b"<Code>AccessDenied</Code>" in response.data and b"expired" in response.data


def test_clock_skew(server, bucket, clock):
    client = server.client()
    for minutes, good in ((-14, True), (14, True), (-16, False), (16, False)):
        clock(minutes)
        if good:
            client.head_bucket(Bucket=bucket)
            continue
        with pytest.raises(ClientError) as info:
            client.list_objects_v2(Bucket=bucket)
        assert error_of(info) == ("RequestTimeTooSkewed", 403)


def test_expected_owner(s3, bucket):
    with pytest.raises(ClientError) as info:
        s3.list_objects_v2(Bucket=bucket, ExpectedBucketOwner="123456789012")
    assert error_of(info) == ("AccessDenied", 403)


def test_default_presigned_urls(server, s3, bucket):
    """boto3's default is signature version 2."""
    key = "a b/ü+%'(x).txt"
    body = pattern(70_000)
    url = s3.generate_presigned_url("put_object", Params={
        "Bucket": bucket, "Key": key, "ContentType": "text/x-mine", "Metadata": {"name": "a b"}, "Tagging": "a=b"})
    assert "AWSAccessKeyId=" in url and "X-Amz-Signature" not in url
    assert server.http("PUT", url, body=body, headers={"Content-Type": "text/html"}).status == 403
    assert server.http("PUT", url, body=body, headers={"Content-Type": "text/x-mine"}).status == 200
    got = s3.get_object(Bucket=bucket, Key=key)
    assert got["Body"].read() == body and got["ContentType"] == "text/x-mine" and got["Metadata"] == {"name": "a b"}
    assert got["TagCount"] == 1
    disposition = 'attachment; filename="a & b.txt"'
    url = s3.generate_presigned_url("get_object", Params={
        "Bucket": bucket, "Key": key, "ResponseContentType": "text/plain", "ResponseContentDisposition": disposition})
    response = server.http("GET", url)
    assert response.status == 200 and response.data == body
    assert response.headers["Content-Type"] == "text/plain" and response.headers["Content-Disposition"] == disposition
    assert server.http("HEAD", url).status == 403 and server.http("DELETE", url).status == 403
    assert server.http("GET", url.replace("txt?", "txu?")).status == 403
    for operation, params, want in (
            ("list_objects_v2", {"Prefix": "a "}, b"<KeyCount>1</KeyCount>"), ("list_object_versions", {}, b"<ListVersionsResult"),
            ("get_object_tagging", {"Key": key}, b"<Value>b</Value>"), ("get_bucket_location", {}, b"<LocationConstraint")):
        response = server.http("GET", s3.generate_presigned_url(operation, Params={"Bucket": bucket} | params))
        assert response.status == 200 and want in response.data, (operation, response.data)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    url = s3.generate_presigned_url("upload_part", Params={"Bucket": bucket, "Key": "parts", "UploadId": upload, "PartNumber": 1})
    etag = server.http("PUT", url, body=b"part").headers["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert s3.get_object(Bucket=bucket, Key="parts")["Body"].read() == b"part"
    late = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=8 * 86400)
    assert server.http("GET", late).status == 400
    link = server.aws("s3", "presign", f"s3://{bucket}/parts").stdout.strip()
    assert "AWSAccessKeyId=" in link and server.http("GET", link).data == b"part"
    assert server.http("DELETE", s3.generate_presigned_url("delete_object", Params={"Bucket": bucket, "Key": "parts"})).status == 204


def test_forms(server, signer, s3, bucket, tmp_path):
    body = pattern(3_000_000)
    post = signer.generate_presigned_post(bucket, "up/${filename}", Fields={"Content-Type": "text/x-mine", "success_action_status": "201"}, Conditions=[
        ["starts-with", "$Content-Type", "text/"], {"success_action_status": "201"}, ["content-length-range", 1, len(body)]])
    def send(fields=post["fields"], content=body, **more):
        return server.http("POST", post["url"], fields={**fields, "file": ("a ü.txt", content)}, **more)
    response = send()
    assert response.status == 201 and b"<Key>up/a " in response.data, response.data
    got = s3.get_object(Bucket=bucket, Key="up/a ü.txt")
    assert got["Body"].read() == body and got["ContentType"] == "text/x-mine"
    for change, content, code in (({"acl": "private"}, b"x", "AccessDenied"), ({"Content-Type": "image/png"}, b"x", "AccessDenied"),
                                  ({"key": "other/${filename}"}, b"x", "AccessDenied"), ({}, body + b"x", "EntityTooLarge"), ({}, b"", "EntityTooSmall"),
                                  ({"x-amz-signature": "0" * 64}, b"x", "SignatureDoesNotMatch")):
        response = send({**post["fields"], **change}, content)
        assert f"<Code>{code}</Code>".encode() in response.data, (change, response.data)
    assert send(headers={"x-amz-acl": "private"}).status == 403
    old = s3.generate_presigned_post(bucket, "old")  # boto3's default is signature version 2
    assert "AWSAccessKeyId" in old["fields"]
    assert server.http("POST", old["url"], fields={**old["fields"], "file": ("f", b"x")}).status == 400

    source = tmp_path / "source"
    source.write_bytes(body)
    post = signer.generate_presigned_post(bucket, "curl", Fields={"x-amz-meta-name": "value"}, Conditions=[{"x-amz-meta-name": "value"}])
    arguments = [a for name, value in post["fields"].items() for a in ("-F", f"{name}={value}")]
    done = subprocess.run(["curl", "-sS", "-o", "-", "-w", "%{http_code}", *(["--cacert", server.ca] if server.ca else []), *arguments,
                           "-F", f"file=@{source}", "-F", "submit=Upload", post["url"]], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.stdout == "204", done.stdout + done.stderr
    got = s3.get_object(Bucket=bucket, Key="curl")
    assert got["Body"].read() == body and got["Metadata"] == {"name": "value"}
    assert {o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]} == {"up/a ü.txt", "curl"}


def test_signature_v2_settings(start, tmp_path):
    for mode, by_url, by_header in (("off", 400, False), ("presigned", 200, False), ("all", 200, True)):
        s = start(data=tmp_path / mode, env={"ORCAS_SIGNATURE_V2": mode, "ORCAS_BUCKETS": "bucket"})
        s.client().put_object(Bucket="bucket", Key="k", Body=b"x")
        assert s.http("GET", s.client().generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "k"})).status == by_url
        old = s.client(config={"signature_version": "s3"})
        if by_header:
            old.put_object(Bucket="bucket", Key="a b/ü", Body=b"old", Metadata={"a": "b"}, ContentType="text/x-mine")
            assert old.get_object(Bucket="bucket", Key="a b/ü")["Body"].read() == b"old"
            assert [o["Key"] for o in old.list_objects_v2(Bucket="bucket", Prefix="a")["Contents"]] == ["a b/ü"]
            post = old.generate_presigned_post("bucket", "form")
            assert s.http("POST", post["url"], fields={**post["fields"], "file": ("f", b"form")}).status == 204
            assert old.get_object(Bucket="bucket", Key="form")["Body"].read() == b"form"
            old.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "a b/ü"}]})
            continue
        with pytest.raises(ClientError) as info:
            old.get_object(Bucket="bucket", Key="k")
        assert error_of(info) == ("InvalidRequest", 400)


def test_unsigned_payload_and_old_signature(server, bucket):
    client = server.client(config={"s3": {"payload_signing_enabled": True, "addressing_style": "path"}})
    client.put_object(Bucket=bucket, Key="k", Body=b"x" * 70_000)
    old = server.client(config={"signature_version": "s3"})
    with pytest.raises(ClientError) as info:
        old.get_object(Bucket=bucket, Key="k")
    assert error_of(info)[1] in (400, 403)


def test_health_needs_no_credentials(server):
    for path, status in (("/-/health/live", "live"), ("/-/health/ready", "ready")):
        response = server.http("GET", path)
        assert response.status == 200 and response.headers["Content-Type"] == "application/json"
        health = json.loads(response.data)
        assert health["status"] == status and health["durability"] == "strict" and health["version"]
    assert server.http("POST", "/-/health/live").status == 405
    assert server.http("GET", "/-/health/other").status == 404


def test_virtual_host_style(start, monkeypatch):
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: real(
        "127.0.0.1" if str(host).endswith("localhost") else host, *a, **k))
    s = start(env={"ORCAS_DOMAINS": "s3.localhost,localhost", "ORCAS_BUCKETS": "host-bucket"})
    client = s.client(endpoint_url=s.endpoint.replace("127.0.0.1", "localhost"), config={"s3": {"addressing_style": "virtual"}})
    seen = []
    client.meta.events.register("before-send.s3", lambda request, **_: seen.append(request.url))
    client.put_object(Bucket="host-bucket", Key="-/health/live", Body=b"an object like any other")
    assert client.get_object(Bucket="host-bucket", Key="-/health/live")["Body"].read() == b"an object like any other"
    assert all("//host-bucket.localhost" in url for url in seen), seen
    assert s.client().get_object(Bucket="host-bucket", Key="-/health/live")["Body"].read() == b"an object like any other"


def test_long_presigned_url(server, signer, s3, bucket):
    key = "ü" * 512
    s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    url = signer.generate_presigned_url("get_object", Params={
        "Bucket": bucket, "Key": key, "ResponseContentDisposition": "attachment; filename=" + "n" * 4000})
    assert len(url) > 7000
    assert server.http("GET", url).status == 200
    with pytest.raises(ClientError) as info:
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", CacheControl="v" * 9000)
    assert error_of(info)[1] == 400
    response = server.http("GET", "/", headers={"x-fat": "v" * 40_000})
    if server.endpoint.startswith("https"):  # over TLS, net/http rejects the request
        assert response.status == 431
    else:
        assert response.status == 400 and b"<Code>RequestHeaderSectionTooLarge</Code>" in response.data
