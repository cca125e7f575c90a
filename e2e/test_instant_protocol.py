"""The protocol of docs/instant.md, with a client that was written from that description."""

import hashlib
import os
import xml.etree.ElementTree as ElementTree

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from conftest import REGION

PART = 5 << 20
HEAD = 64 << 10


class Signer(botocore.auth.S3SigV4Auth):
    """Signs a request with the hash of content that the request does not contain."""

    def __init__(self, server, sha256):
        super().__init__(botocore.credentials.Credentials(server.access, server.secret), "s3", REGION)
        self.sha256 = sha256

    def payload(self, request):
        return self.sha256


class Client:
    """Uploads at a RefLevel: 0 sends all content, 1 asks with the hash, 2 first asks with the size and the hash of the
    first 64 KiB."""

    def __init__(self, server, level):
        self.server, self.level, self.sent, self.states = server, level, 0, []

    def request(self, method, path, body=b"", sha256=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = botocore.awsrequest.AWSRequest(method=method, url=self.server.endpoint + path, data=body, headers=headers)
        Signer(self.server, sha256 or hashlib.sha256(body).hexdigest()).add_auth(request)
        self.sent += len(body) if method == "PUT" else 0
        return self.server.http(method, path, body=body or None, headers=dict(request.headers) | {"Content-Length": str(len(body))})

    def ask(self, bucket, bodies, head=False):
        name, size = ("HeadSHA256", HEAD) if head else ("SHA256", None)
        contents = "".join(
            f"<Content><Size>{len(b)}</Size><{name}>{hashlib.sha256(b[:size]).hexdigest()}</{name}></Content>" for b in bodies)
        response = self.request("POST", f"/{bucket}?instant=", f"<FindContent>{contents}</FindContent>".encode())
        if response.status == 501:
            self.level = 0
            return ["absent"] * len(bodies)
        assert response.status == 200, response.data
        states = [e.text for e in ElementTree.fromstring(response.data).iter("{http://s3.amazonaws.com/doc/2006-03-01/}State")]
        self.states += states
        return states

    def upload(self, bucket, bodies):
        """Uploads bodies, given by path, and returns their ETags by path."""
        there, left = set(), list(bodies)
        for head in ([], [False], [True, False])[self.level]:
            if not left:
                break
            states = dict(zip(left, self.ask(bucket, [bodies[path] for path in left], head)))
            there |= {path for path in left if states[path] == "present"}
            left = [path for path in left if states[path] == "perhaps"]
        etags = {}
        for path, body in bodies.items():
            response = None
            if path in there:
                response = self.request("PUT", path, sha256=hashlib.sha256(body).hexdigest(), x_amz_instant_length=str(len(body)))
            if response is None or response.status == 404 and b"<Code>NoSuchContent</Code>" in response.data:
                response = self.request("PUT", path, body)
            assert response.status == 200, response.data
            etags[path] = response.headers["ETag"]
        return etags


@pytest.mark.parametrize("level", [0, 1, 2])
def test_levels(server, s3, bucket, level):
    """Stored content is not sent again; new content is sent."""
    client = Client(server, level)
    bodies = {f"/{bucket}/{size}": os.urandom(size) for size in (1, HEAD, HEAD + 1, 10 << 20)}
    total = sum(map(len, bodies.values()))
    etags = client.upload(bucket, bodies)
    assert client.sent == total
    assert client.states == ["absent"] * 4 * (level > 0)
    client.sent, client.states = 0, []
    again = {path + "-again": body for path, body in bodies.items()}
    assert list(client.upload(bucket, again).values()) == list(etags.values())
    assert client.sent == (0 if level else total)
    assert client.states == [[], ["present"] * 4, ["present", "present", "perhaps", "perhaps", "present", "present"]][level]
    for path, body in again.items():
        assert s3.get_object(Bucket=bucket, Key=path.split("/")[2])["Body"].read() == body
        assert etags[path.removesuffix("-again")] == f'"{hashlib.md5(body).hexdigest()}"'


def test_parts_that_are_missing(server, s3, bucket):
    """One request asks about all parts of a large object."""
    parts = [os.urandom(PART) for _ in range(4)]
    client = Client(server, 2)
    for key, bodies, sent in ("first", parts[:3], 3), ("second", parts[::-1], 1), ("third", parts, 0):
        upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        paths = [f"/{bucket}/{key}?partNumber={n + 1}&uploadId={upload}" for n in range(len(bodies))]
        client.sent = 0
        etags = client.upload(bucket, dict(zip(paths, bodies)))
        assert client.sent == sent * PART
        s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": n + 1, "ETag": etags[path]} for n, path in enumerate(paths)]})
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"".join(bodies)


def test_deleted_content(server, s3, bucket):
    """A state is not a promise: content that was deleted in the meantime must be sent."""
    client, body = Client(server, 1), os.urandom(1 << 20)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    assert client.ask(bucket, [body]) == ["present"]
    s3.delete_object(Bucket=bucket, Key="k")
    client.ask = lambda *_: ["present"]
    client.upload(bucket, {f"/{bucket}/new": body})
    assert client.sent == len(body)
    assert s3.get_object(Bucket=bucket, Key="new")["Body"].read() == body


def test_restart_and_off(start):
    """Content is found after a restart too. A server with instant upload off returns an error, and the client sends all
    content."""
    first = start()
    first.client().create_bucket(Bucket="instant")
    bodies = {"/instant/a": os.urandom(1000), "/instant/b": os.urandom(300_000)}
    Client(first, 0).upload("instant", bodies)
    first.kill()
    second = start()
    client = Client(second, 2)
    client.upload("instant", bodies)
    assert (client.sent, client.states) == (0, ["present", "perhaps", "present"])
    second.stop()
    client = Client(start(env={"ORCAS_INSTANT_UPLOAD_ENABLED": "false"}), 2)
    client.upload("instant", bodies)
    assert client.sent == 301_000
    assert client.level == 0
