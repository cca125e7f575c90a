"""s3fs (fsspec): files, directories, multipart, exclusive creation; and zarr and DuckDB on top of it."""

import os
import sys

import duckdb
import numpy
import pyarrow
import pyarrow.parquet
import s3fs
import zarr

bucket = sys.argv[1]
fs = s3fs.S3FileSystem(endpoint_url=os.environ["ENDPOINT"], client_kwargs={"region_name": "us-east-1"})
fs.mkdir(bucket)
large = os.urandom((12 << 20) + 3)
with fs.open(f"{bucket}/dir/large", "wb", block_size=5 << 20) as f:
    for i in range(0, len(large), 1 << 20):
        f.write(large[i:i + (1 << 20)])
fs.pipe({f"{bucket}/dir/{i}": str(i).encode() for i in range(50)})
assert fs.cat(f"{bucket}/dir/large") == large
assert fs.cat_file(f"{bucket}/dir/large", start=5 << 20, end=(5 << 20) + 100) == large[5 << 20:(5 << 20) + 100]
with fs.open(f"{bucket}/dir/large", "rb") as f:
    f.seek(-10, 2)
    assert f.read() == large[-10:]
assert len(fs.ls(f"{bucket}/dir", refresh=True)) == 51
fs.copy(f"{bucket}/dir/large", f"{bucket}/copy")
fs.mv(f"{bucket}/copy", f"{bucket}/moved")
assert not fs.exists(f"{bucket}/copy") and fs.info(f"{bucket}/moved")["size"] == len(large)
with fs.open(f"{bucket}/appended", "ab") as f:
    f.write(b"one")
with fs.open(f"{bucket}/appended", "ab") as f:
    f.write(b"two")
assert fs.cat(f"{bucket}/appended") == b"onetwo"
fs.pipe_file(f"{bucket}/once", b"first", mode="create")
try:
    fs.pipe_file(f"{bucket}/once", b"second", mode="create")
    raise AssertionError("created twice")
except OSError:  # s3fs has no exception type for 412
    pass
assert fs.cat(f"{bucket}/once") == b"first"
fs.put_tags(f"{bucket}/once", {"a": "b"})
assert fs.get_tags(f"{bucket}/once") == {"a": "b"}
assert sorted(fs.find(f"{bucket}/dir")) == sorted(f"{bucket}/dir/{n}" for n in [*map(str, range(50)), "large"])

async_fs = s3fs.S3FileSystem(endpoint_url=os.environ["ENDPOINT"], asynchronous=True, client_kwargs={"region_name": "us-east-1"})
store = zarr.storage.FsspecStore(async_fs, path=f"{bucket}/array")
values = numpy.random.default_rng(1).integers(0, 1000, (300, 200))
array = zarr.create_array(store=store, shape=values.shape, chunks=(64, 64), dtype=values.dtype)
array[:] = values
array[10:20, 5:7] = -1
values[10:20, 5:7] = -1
assert (zarr.open_array(store=store, mode="r")[:] == values).all()

table = pyarrow.table({"n": list(range(10_000)), "square": [n * n for n in range(10_000)]})
pyarrow.parquet.write_table(table, f"{bucket}/table.parquet", filesystem=fs)
db = duckdb.connect()
db.register_filesystem(fs)
assert db.execute(f"select sum(square) from read_parquet('s3://{bucket}/table.parquet') where n % 2 = 0").fetchone()[0] == sum(n * n for n in range(0, 10_000, 2))
db.execute(f"copy (select n from read_parquet('s3://{bucket}/table.parquet') where n < 100) to 's3://{bucket}/few.parquet' (format parquet)")
assert pyarrow.parquet.read_table(f"{bucket}/few.parquet", filesystem=fs).num_rows == 100
fs.rm(bucket, recursive=True)
assert not fs.exists(bucket)
