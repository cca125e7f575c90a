"""A 200 means that the content is stored, even if the bucket's existing copy was damaged or missing."""

import hashlib
import shutil
import subprocess

import pytest

SIZES = [3_000, 70_000, 9 << 20]


def content(size):
    """Returns bytes without repetition, the same for each call."""
    return b"".join(hashlib.sha512(f"{size} {n}".encode()).digest() for n in range(size // 64 + 1))[:size]


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 8]))


def flip_packed(blocks):
    part = content(3_000)[1_000:1_064]
    for path in blocks.glob("*/*/*.packed"):
        if (at := path.read_bytes().find(part)) >= 0:
            flip(path, at)
            return
    raise AssertionError("no packed block contains the small object")


def flip_large(blocks):
    for path in blocks.glob("*/*/*.large"):
        flip(path, path.stat().st_size - 100)


def remove_large(blocks):
    for path in blocks.glob("*/*/*.large"):
        path.unlink()


def empty(blocks):
    for path in blocks.glob("*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


DAMAGES = {"bit flip in a packed block": flip_packed, "bit flips in large blocks": flip_large, "large blocks missing": remove_large, "all blocks missing": empty}


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_upload_repairs(start, binary, damage, running, read):
    server = start()
    s3 = server.client()
    s3.create_bucket(Bucket="bucket")
    for size in SIZES:
        s3.put_object(Bucket="bucket", Key=f"key-{size}", Body=content(size))
        s3.copy_object(Bucket="bucket", Key=f"copy-{size}", CopySource={"Bucket": "bucket", "Key": f"key-{size}"})
        assert s3.get_object(Bucket="bucket", Key=f"key-{size}")["Body"].read() == content(size)
    blocks = server.data / "blocks"
    help_text = subprocess.run([str(binary), "server", "--help"], capture_output=True, text=True).stdout
    allowed = ["--allow-missing-blocks"] if "--allow-missing-blocks" in help_text else []

    def restart():
        assert server.stop() == 0, server.log
        return start(*allowed)

    if running:
        DAMAGES[damage](blocks)
    else:
        assert server.stop() == 0, server.log
        DAMAGES[damage](blocks)
        server = start(*allowed)
        s3 = server.client()
    if read:
        for size in SIZES:
            try:
                s3.get_object(Bucket="bucket", Key=f"copy-{size}")["Body"].read()
            except Exception:  # noqa: BLE001: a 500, or the client's error for a truncated response
                pass
    for size in SIZES:
        s3.put_object(Bucket="bucket", Key=f"again-{size}", Body=content(size))
        for key in ["again", "key", "copy"]:
            assert s3.get_object(Bucket="bucket", Key=f"{key}-{size}")["Body"].read() == content(size), f"{key}-{size}"
    server = restart()
    s3 = server.client()
    for size in SIZES:
        s3.put_object(Bucket="bucket", Key=f"third-{size}", Body=content(size))
        for key in ["third", "again", "key", "copy"]:
            assert s3.get_object(Bucket="bucket", Key=f"{key}-{size}")["Body"].read() == content(size), f"{key}-{size}"
    assert server.stop() == 0, server.log
    done = subprocess.run([str(binary), "fsck", "--data", str(server.data), "--content"], capture_output=True, text=True)
    assert "damaged" not in done.stdout.replace("0 damaged", ""), done.stdout
