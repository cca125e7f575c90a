"""Tables on objects: obstore (conditional writes), deltalake (concurrent commits), pyiceberg."""

import concurrent.futures
import os
import sys
import tempfile

import boto3
import deltalake
import obstore
import pyarrow
from obstore.store import S3Store
from pyiceberg.catalog.sql import SqlCatalog

bucket, endpoint = sys.argv[1], os.environ["ENDPOINT"]
boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=bucket)
plain = endpoint.startswith("http:")
store = S3Store(bucket, endpoint=endpoint, region="us-east-1", client_options={"allow_http": plain, "allow_invalid_certificates": not plain})

large = os.urandom((13 << 20) + 1)
obstore.put(store, "large", large, use_multipart=True, chunk_size=5 << 20)
assert bytes(obstore.get(store, "large").bytes()) == large
assert bytes(obstore.get_range(store, "large", start=100, end=200)) == large[100:200]
assert [bytes(b) for b in obstore.get_ranges(store, "large", starts=[0, 6 << 20], ends=[10, (6 << 20) + 10])] == [large[:10], large[6 << 20:(6 << 20) + 10]]
obstore.copy(store, "large", "copy")
obstore.rename(store, "copy", "renamed")
assert sorted(o["path"] for page in obstore.list(store) for o in page) == ["large", "renamed"]


def create(n):
    try:
        obstore.put(store, "once", str(n).encode(), mode="create")
        return n
    except obstore.exceptions.AlreadyExistsError:
        return None


with concurrent.futures.ThreadPoolExecutor(16) as threads:
    won = [n for n in threads.map(create, range(64)) if n is not None]
assert len(won) == 1 and bytes(obstore.get(store, "once").bytes()) == str(won[0]).encode(), won

obstore.put(store, "counter", b"0")


def count(_):
    while True:
        got = obstore.get(store, "counter")
        version, value = {"e_tag": got.meta["e_tag"]}, int(bytes(got.bytes()))
        try:
            obstore.put(store, "counter", str(value + 1).encode(), mode=version)
            return
        except obstore.exceptions.PreconditionError:
            pass


with concurrent.futures.ThreadPoolExecutor(8) as threads:
    list(threads.map(count, range(64)))
assert bytes(obstore.get(store, "counter").bytes()) == b"64"

# Several writers commit to one table concurrently: every commit is a conditional write, and none is lost.
options = {"endpoint": endpoint, "region": "us-east-1", "aws_conditional_put": "etag", "allow_http": str(plain).lower(), "allow_invalid_certificates": str(not plain).lower()}
uri = f"s3://{bucket}/delta"
deltalake.write_deltalake(uri, pyarrow.table({"writer": [0], "n": [0]}), storage_options=options)


def append(writer):
    for n in range(5):
        deltalake.write_deltalake(uri, pyarrow.table({"writer": [writer], "n": [n]}), mode="append", storage_options=options)


with concurrent.futures.ThreadPoolExecutor(6) as threads:
    list(threads.map(append, range(1, 7)))
table = deltalake.DeltaTable(uri, storage_options=options)
rows = table.to_pyarrow_table()
assert rows.num_rows == 1 + 6 * 5 and table.version() == 30, (rows.num_rows, table.version())
table.optimize.compact()
table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
assert deltalake.DeltaTable(uri, storage_options=options).to_pyarrow_table().num_rows == 31

with tempfile.TemporaryDirectory() as dir:
    catalog = SqlCatalog("test", uri=f"sqlite:///{dir}/catalog.db", warehouse=f"s3://{bucket}/warehouse", **{
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "s3.endpoint": endpoint, "s3.region": "us-east-1",
        "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"], "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"]})
    catalog.create_namespace("ns")
    data = pyarrow.table({"id": list(range(1000)), "text": [f"row {i}" for i in range(1000)]})
    iceberg = catalog.create_table("ns.t", schema=data.schema)
    iceberg.append(data)
    iceberg.append(data)
    iceberg.delete("id >= 500")
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 1000
    assert catalog.load_table("ns.t").scan(snapshot_id=iceberg.snapshots()[0].snapshot_id).to_arrow().num_rows == 1000
