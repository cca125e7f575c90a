"""The minio client for Python: objects, multipart, composition, tags, versions, locks, presigned URLs."""

import datetime
import io
import os
import sys

import urllib3
from minio import Minio
from minio.commonconfig import GOVERNANCE, ComposeSource, CopySource, Tags
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from minio.retention import Retention
from minio.versioningconfig import ENABLED, VersioningConfig

bucket = sys.argv[1]
endpoint = os.environ["ENDPOINT"]
pool = urllib3.PoolManager(ca_certs=os.environ.get("SSL_CERT_FILE"), retries=urllib3.Retry(total=1))
client = Minio(endpoint.split("//")[1], access_key=os.environ["AWS_ACCESS_KEY_ID"], secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
               secure=endpoint.startswith("https"), region="us-east-1", http_client=pool)


def get(key, **more):
    response = client.get_object(bucket_name=bucket, object_name=key, **more)
    try:
        return response.read()
    finally:
        response.close()
        response.release_conn()


def put(key, body, **more):
    return client.put_object(bucket_name=bucket, object_name=key, data=io.BytesIO(body), length=len(body), **more)


client.make_bucket(bucket_name=bucket)
assert client.bucket_exists(bucket_name=bucket)
small, large = b"a small object", os.urandom((11 << 20) + 5)
put("small", small, metadata={"colour": "blue"})
client.put_object(bucket_name=bucket, object_name="large", data=io.BytesIO(large), length=-1, part_size=5 << 20)
assert get("small") == small and get("large") == large
assert get("large", offset=7, length=1000) == large[7:1007]
assert client.stat_object(bucket_name=bucket, object_name="small").metadata["x-amz-meta-colour"] == "blue"
client.copy_object(bucket_name=bucket, object_name="copy", source=CopySource(bucket_name=bucket, object_name="small"))
assert get("copy") == small
client.compose_object(bucket_name=bucket, object_name="composed", sources=[
    ComposeSource(bucket_name=bucket, object_name="large"), ComposeSource(bucket_name=bucket, object_name="small")])
assert get("composed") == large + small
names = [o.object_name for o in client.list_objects(bucket_name=bucket, recursive=True)]
assert names == ["composed", "copy", "large", "small"], names

tags = Tags.new_object_tags()
tags["project"] = "orcas"
client.set_object_tags(bucket_name=bucket, object_name="small", tags=tags)
assert dict(client.get_object_tags(bucket_name=bucket, object_name="small")) == {"project": "orcas"}
client.delete_object_tags(bucket_name=bucket, object_name="small")
assert not client.get_object_tags(bucket_name=bucket, object_name="small")

client.set_bucket_versioning(bucket_name=bucket, config=VersioningConfig(status=ENABLED))
first = put("versioned", b"one").version_id
second = put("versioned", b"two").version_id
assert get("versioned") == b"two" and get("versioned", version_id=first) == b"one"
client.remove_object(bucket_name=bucket, object_name="versioned")
listed = list(client.list_objects(bucket_name=bucket, prefix="versioned", include_version=True))
assert [o.version_id for o in listed if not o.is_delete_marker] == [second, first] and len(listed) == 3
url = client.presigned_get_object(bucket_name=bucket, object_name="versioned", version_id=first)
assert pool.request("GET", url).data == b"one"
url = client.presigned_put_object(bucket_name=bucket, object_name="presigned")
assert pool.request("PUT", url, body=b"by a URL").status == 200
assert get("presigned") == b"by a URL"
everything = [DeleteObject(name=o.object_name, version_id=o.version_id) for o in client.list_objects(bucket_name=bucket, recursive=True, include_version=True)]
assert not list(client.remove_objects(bucket_name=bucket, delete_object_list=everything))
client.remove_bucket(bucket_name=bucket)

if endpoint.startswith("http:"):  # S3 requires a checksum with a lock, and over plain HTTP this client sends none
    sys.exit()

locked = bucket + "-locked"
client.make_bucket(bucket_name=locked, object_lock=True)
until = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(days=1)
kept = client.put_object(bucket_name=locked, object_name="kept", data=io.BytesIO(b"kept"), length=4,
                         retention=Retention(mode=GOVERNANCE, retain_until_date=until), legal_hold=True).version_id
assert client.is_object_legal_hold_enabled(bucket_name=locked, object_name="kept")
assert client.get_object_retention(bucket_name=locked, object_name="kept").mode == GOVERNANCE
client.disable_object_legal_hold(bucket_name=locked, object_name="kept")
try:
    client.remove_object(bucket_name=locked, object_name="kept", version_id=kept)
    raise AssertionError("a locked version was removed")
except S3Error as e:
    assert e.code == "AccessDenied", e
