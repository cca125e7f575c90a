"""boto3 1.26, the version in Debian 12: Content-MD5 instead of checksums, multipart uploads, presigned URLs."""

import hashlib
import io
import os
import sys
import urllib.request

import boto3
import botocore.client

bucket = sys.argv[1]
s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"])
s3.create_bucket(Bucket=bucket)
large = os.urandom((17 << 20) + 1)
s3.upload_fileobj(io.BytesIO(large), bucket, "large", ExtraArgs={"Metadata": {"colour": "blue"}, "ContentType": "text/x-test"})
out = io.BytesIO()
s3.download_fileobj(bucket, "large", out)
assert out.getvalue() == large
head = s3.head_object(Bucket=bucket, Key="large")
assert head["Metadata"] == {"colour": "blue"} and head["ContentType"] == "text/x-test" and head["ETag"].endswith('-3"')
for i in range(30):
    response = s3.put_object(Bucket=bucket, Key=f"many/{i:02}", Body=str(i).encode())
    assert response["ETag"].strip('"') == hashlib.md5(str(i).encode()).hexdigest()
pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="many/", PaginationConfig={"PageSize": 7})
assert [o["Key"] for p in pages for o in p["Contents"]] == [f"many/{i:02}" for i in range(30)]
s3.copy({"Bucket": bucket, "Key": "large"}, bucket, "copy")
assert s3.get_object(Bucket=bucket, Key="copy", Range="bytes=-5")["Body"].read() == large[-5:]
signer = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], config=botocore.client.Config(signature_version="s3v4"))
url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "many/07"}, ExpiresIn=60)
if url.startswith("http:"):
    assert urllib.request.urlopen(url).read() == b"7"
boto3.resource("s3", endpoint_url=os.environ["ENDPOINT"]).Bucket(bucket).objects.delete()
s3.delete_bucket(Bucket=bucket)
