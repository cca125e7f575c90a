"""The console: objects and buckets."""

import io
import itertools
import json
import os
import re
import urllib.parse
import zipfile

import pytest

from playwright.sync_api import expect

from console import PATIENCE, until
from conftest import pattern
from proxy import Proxy

ODD = [
    "with space.txt", "plus+and&more=.txt", "percent%41%2F.txt", "hash#question?.txt", "quote'\"<b>.txt", "ünïcödé-日本.txt", "back\\slash", "line\nbreak",
    "tab\there", "./dot", "../up", "a/../b", "a//b", "/leading", "semi;colon,comma", "x" * 1000,
]

PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj
trailer<</Root 1 0 R>>
"""


@pytest.fixture
def shown(console):
    """A bucket, and a console that shows it."""
    s3 = console.server.client()
    s3.create_bucket(Bucket="shown")
    c = console()
    c.s3 = s3
    c.go("objects/shown")
    return c


def row(c, name):
    return c.page.get_by_role("row").filter(has=c.page.get_by_role("button", name=name, exact=True))


def content(c, key, **more):
    return c.s3.get_object(Bucket="shown", Key=key, **more)["Body"].read()


def number(url):
    """Returns the number of the part in a URL."""
    return int(re.search(r"partNumber=(\d+)", url).group(1))


def test_upload_folder_and_browse(shown, tmp_path):
    for name in ("top.txt", "sub/one.txt", "sub/deep/two.txt"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    shown.page.get_by_label("Folder to upload").set_input_files(str(tmp_path / "tree"))
    shown.says("3 files uploaded")
    assert content(shown, "tree/sub/deep/two.txt") == b"sub/deep/two.txt"
    shown.page.get_by_role("link", name="tree/").click()
    shown.page.get_by_role("link", name="sub/").click()
    shown.page.get_by_role("button", name="one.txt", exact=True).wait_for()
    shown.page.get_by_label("Breadcrumb").get_by_role("link", name="tree").click()
    shown.page.get_by_role("button", name="top.txt", exact=True).wait_for()
    shown.page.get_by_label("Show names that begin with").fill("su")
    shown.page.get_by_role("button", name="top.txt", exact=True).wait_for(state="detached")
    shown.page.get_by_role("link", name="sub/").wait_for()
    shown.go("objects/shown")
    shown.click("New folder")
    shown.page.get_by_label("Name", exact=True).fill("empty")
    shown.confirm("Create folder")
    shown.page.get_by_role("link", name="empty/").wait_for()


def test_drop(shown):
    transfer = shown.page.evaluate_handle("""() => { const t = new DataTransfer(); t.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" })); return t; }""")
    shown.page.dispatch_event(".drop", "drop", {"dataTransfer": transfer})
    shown.says("1 file uploaded")
    assert content(shown, "dropped.txt") == b"dropped"


def test_odd_keys(shown):
    for i, key in enumerate(ODD):
        shown.s3.put_object(Bucket="shown", Key=key if key.startswith("/") else f"k{i}/x/{key}", Body=f"content {i}".encode(), ContentType="text/plain")
    listed = [o["Key"] for o in shown.s3.list_objects_v2(Bucket="shown")["Contents"]]
    assert len(listed) == len(ODD)
    for key in listed:
        prefix, slash, name = key.rpartition("/")
        shown.go("objects/shown/" + "".join(urllib.parse.quote(p, safe="") + "/" for p in (prefix + slash).split("/")[:-1]))
        button = shown.page.locator("button.name")
        button.wait_for()
        assert button.inner_text().strip() == " ".join(name.split()) or button.text_content() == name, key
        button.click()
        i = shown.s3.get_object(Bucket="shown", Key=key)["Body"].read().decode()
        shown.page.locator("dialog pre").get_by_text(i, exact=True).wait_for()
        shown.page.get_by_role("group", name="View").get_by_role("button", name="Tags").click()
        shown.page.get_by_label("Tag 1").fill("seen")
        shown.page.get_by_label("Value 1").fill("yes")
        with shown.answered("PUT", "tagging"):
            shown.click("Save tags")
        shown.page.locator("dialog footer").get_by_role("button", name="Close").click()
        assert shown.s3.get_object_tagging(Bucket="shown", Key=key)["TagSet"] == [{"Key": "seen", "Value": "yes"}]
        shown.page.locator("tbody").get_by_label("Actions for").click()
        shown.page.locator(".menu-items").get_by_role("button", name="Delete…").click()
        shown.confirm("Delete")
        shown.told("1 object deleted.")
    assert shown.s3.list_objects_v2(Bucket="shown")["KeyCount"] == 0


def test_download_and_zip(shown, tmp_path):
    files = {"a.txt": b"a", "folder/b.txt": b"b", "folder/../c.txt": b"c", "folder/big": pattern(3 << 20)}
    for key, body in files.items():
        shown.s3.put_object(Bucket="shown", Key=key, Body=body)
    shown.page.reload()
    with shown.page.expect_download() as download:
        shown.menu("a.txt", "Download")
    assert open(download.value.path(), "rb").read() == b"a" and download.value.suggested_filename == "a.txt"
    shown.page.get_by_label("Select all rows").check()
    with shown.page.expect_download() as download:
        shown.click("Download as ZIP")
    assert download.value.suggested_filename == "shown.zip"
    archive = zipfile.ZipFile(io.BytesIO(open(download.value.path(), "rb").read()))
    assert archive.testzip() is None
    names = archive.namelist()
    assert "a.txt" in names and "folder/b.txt" in names and archive.read("folder/big") == files["folder/big"]
    assert not any(".." in name for name in names) and len(names) == 4


def test_versions(shown):
    shown.s3.put_bucket_versioning(Bucket="shown", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"first", b"second"):
        shown.s3.put_object(Bucket="shown", Key="a.txt", Body=body, ContentType="text/plain")
    shown.page.reload()
    shown.menu("a.txt", "Delete…")
    shown.confirm("Delete")
    shown.told("1 object deleted.")
    shown.says("This bucket is empty")
    shown.page.get_by_label("Show versions").check()
    shown.says("delete marker")
    marker = shown.page.get_by_role("row").filter(has_text="delete marker")
    marker.get_by_label("Actions for").click()
    shown.page.locator(".menu-items").get_by_role("button", name="Undelete").click()
    shown.told("The object is back.")
    assert content(shown, "a.txt") == b"second"
    shown.page.get_by_label("Show versions").uncheck()
    expect(shown.page.locator("button.name")).to_have_count(1, timeout=PATIENCE)
    shown.page.get_by_role("button", name="a.txt", exact=True).click()
    shown.page.get_by_role("group", name="View").get_by_role("button", name="Versions").click()
    old = shown.page.locator("dialog").get_by_role("row").filter(has_not_text="current").nth(1)
    old.get_by_label("Actions for version").click()
    shown.page.locator(".menu-items").get_by_role("button", name="Restore this version").click()
    shown.told("The version is the current one again.")
    assert content(shown, "a.txt") == b"first"


def test_metadata_copy_and_move(shown):
    shown.s3.put_object(Bucket="shown", Key="a.txt", Body=b"a", Metadata={"kept": "yes"}, ContentType="text/plain", CacheControl="no-cache", ContentDisposition="attachment; filename=x")
    shown.page.reload()
    shown.page.get_by_role("button", name="a.txt", exact=True).click()
    views = shown.page.get_by_role("group", name="View")
    views.get_by_role("button", name="Details").click()
    shown.says("Metadata kept")
    shown.click("Edit metadata")
    shown.page.get_by_label("Content-Type").fill("text/csv")
    shown.page.get_by_label("Name", exact=True).nth(1).fill("color")
    shown.page.get_by_label("Value", exact=True).nth(1).fill("grün")
    shown.click("Save")
    shown.says("Metadata color")
    head = shown.s3.head_object(Bucket="shown", Key="a.txt")
    assert head["ContentType"] == "text/csv" and head["CacheControl"] == "no-cache" and head["ContentDisposition"] == "attachment; filename=x" and head["Metadata"]["kept"] == "yes" and "color" in head["Metadata"]
    views.get_by_role("button", name="Copy or move").click()
    shown.page.get_by_label("Key", exact=True).fill("moved/b.txt")
    shown.click("Move")
    shown.page.get_by_role("link", name="moved/").wait_for()
    assert [o["Key"] for o in shown.s3.list_objects_v2(Bucket="shown")["Contents"]] == ["moved/b.txt"]


def test_protection(console):
    s3 = console.server.client()
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="locked", Key="a.txt", Body=b"a")
    c = console()
    c.go("objects/locked")
    c.click("a.txt")
    c.page.get_by_role("group", name="View").get_by_role("button", name="Protection").click()
    with c.answered("PUT", "?legal-hold"):
        c.page.get_by_label("Legal hold").click()
    c.page.get_by_label("Keep until").fill("2040-01-01T00:00")
    c.click("Set retention")
    c.says("Kept until")
    assert s3.get_object_legal_hold(Bucket="locked", Key="a.txt")["LegalHold"]["Status"] == "ON"
    assert s3.get_object_retention(Bucket="locked", Key="a.txt")["Retention"]["Mode"] == "GOVERNANCE"


def test_previews(shown):
    png = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf50000003030180d5a7bb320000000049454e44ae426082")
    shown.s3.put_object(Bucket="shown", Key="p.png", Body=png, ContentType="image/png")
    shown.s3.put_object(Bucket="shown", Key="p.svg", Body=b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", ContentType="image/svg+xml")
    shown.s3.put_object(Bucket="shown", Key="p.bin", Body=b"\0\1", ContentType="application/octet-stream")
    shown.s3.put_object(Bucket="shown", Key="p.pdf", Body=PDF, ContentType="application/pdf")
    shown.page.reload()
    for name, sees in (("p.svg", "onload='alert(1)'"), ("p.bin", "There is no preview")):
        shown.click(name)
        shown.says(sees)
        shown.page.locator("dialog footer").get_by_role("button", name="Close").click()
    with shown.page.expect_response(lambda r: r.url.endswith("/p.png") and r.request.resource_type == "image") as response:
        shown.click("p.png")
    assert response.value.status == 200 and response.value.headers["content-disposition"] == "inline"
    shown.page.locator("dialog footer").get_by_role("button", name="Close").click()
    shown.click("p.pdf")
    with shown.context.expect_page() as tab:
        shown.page.get_by_role("link", name="Open the PDF in a new tab").click()
    until(tab.value, lambda: any(frame.url.startswith("chrome-extension:") for frame in tab.value.frames))  # the viewer of the browser


def resume_upload(console, tmp_path):
    """Cuts the connection during a large upload, closes the page, chooses the same file again, and returns the page."""
    size = int(os.environ.get("ORCAS_CONSOLE_UPLOAD", 100 << 20))
    path = tmp_path / "large.bin"
    with open(path, "wb") as f:
        f.truncate(size)
        f.write(b"begin")
        f.seek(size - 3)
        f.write(b"end")
    proxy = Proxy("/")
    c = console(signed_in=False)
    c.s3 = console.server.client()
    c.s3.create_bucket(Bucket="shown")
    host, port = c.base.removeprefix("http://").split(":")
    proxy.upstream, c.base = (host, int(port)), f"http://127.0.0.1:{proxy.server_port}"
    c.sign_in()
    c.go("objects/shown")
    limit = size // (8 << 20) // 2
    requests, kept, failed = itertools.count(1), [], []
    proxy.cut = lambda path: "partNumber=" in path and next(requests) > limit
    c.page.on("response", lambda r: "partNumber=" in r.url and kept.append(number(r.url)))
    c.page.on("requestfailed", lambda r: failed.append(r.url))
    c.page.on("dialog", lambda d: d.accept())  # the question whether to leave
    c.page.get_by_label("Files to upload").set_input_files(str(path))
    until(c.page, lambda: len(kept) == limit and failed)
    c.page.reload()  # until here, the page has tried again, in vain
    proxy.cut = lambda path: False
    uploads = c.s3.list_multipart_uploads(Bucket="shown")["Uploads"]
    assert len(uploads) == 1
    parts = c.s3.get_paginator("list_parts").paginate(Bucket="shown", Key="large.bin", UploadId=uploads[0]["UploadId"]).search("Parts[].PartNumber")
    assert sorted(parts) == sorted(kept) and len(kept) == limit
    before, again = list(kept), []
    c.page.on("request", lambda r: "partNumber=" in r.url and again.append(number(r.url)))
    c.page.get_by_label("Files to upload").set_input_files(str(path))
    c.says("1 file uploaded")
    c.says("continued at")
    assert sorted(before + again) == list(range(1, -(-size // (8 << 20)) + 1))  # each part once: none that the server has
    assert c.s3.head_object(Bucket="shown", Key="large.bin")["ContentLength"] == size
    assert content(c, "large.bin", Range="bytes=0-4") == b"begin" and content(c, "large.bin", Range="bytes=-3") == b"end"
    assert "Uploads" not in c.s3.list_multipart_uploads(Bucket="shown")
    c.problems[:] = [p for p in c.problems if "net::ERR_" not in p]  # the browser logs what the proxy has cut
    return c


def test_upload_is_resumed(console, tmp_path):
    """The same file, chosen again, continues where it stopped."""
    resume_upload(console, tmp_path)


def test_cancel(shown):
    shown.page.route("**/*partNumber=*", lambda route: None)  # the parts never arrive
    with shown.page.expect_request("**/*partNumber=*"):
        shown.page.get_by_label("Files to upload").set_input_files({"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"x" * (20 << 20)})
    with shown.answered("DELETE", "uploadId="):
        shown.page.get_by_label("Cancel a.bin").click()
    shown.says("canceled")
    assert "Uploads" not in shown.s3.list_multipart_uploads(Bucket="shown")


def test_cancel_at_once(shown):
    """An upload that is canceled before the page knows its ID leaves nothing behind."""
    held = []
    shown.page.route("**/*?uploads", lambda route: held.append(route))
    shown.page.get_by_label("Files to upload").set_input_files({"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"x" * (20 << 20)})
    shown.page.get_by_label("Cancel a.bin").click()
    until(shown.page, lambda: held)
    with shown.answered("DELETE", "uploadId="):
        held[0].continue_()
    shown.says("canceled")
    assert "Uploads" not in shown.s3.list_multipart_uploads(Bucket="shown")


def test_many_objects(shown):
    """A long listing is loaded page by page."""
    for i in range(0, 1200):
        shown.s3.put_object(Bucket="shown", Key=f"{i:05}", Body=b"")
    shown.page.reload()
    shown.says("500 rows so far")
    shown.click("Load more")
    shown.says("1,000 rows so far")
    shown.click("Load more")
    shown.page.get_by_role("button", name="01199", exact=True).wait_for()
    shown.page.get_by_label("Select all rows").check()
    shown.click("Delete")
    shown.confirm("Delete")
    shown.told("1,200 objects deleted.")
    shown.says("This bucket is empty")


def test_buckets(console):
    s3 = console.server.client()
    c = console()
    c.go("buckets")
    c.page.locator(".page-head").get_by_role("button", name="Create bucket").click()
    name = c.page.get_by_label("Name", exact=True)
    name.fill("Not Valid")
    c.says("lowercase letters, digits, hyphens and periods only")
    name.fill("made")
    c.page.get_by_label("Keep versions").check()
    c.page.get_by_label("Compression").select_option("fast")
    c.page.get_by_label("Quota").fill("1GiB")
    c.confirm("Create bucket")
    c.told("The bucket made was created.")
    assert s3.get_bucket_versioning(Bucket="made")["Status"] == "Enabled"

    c.go("buckets/made/lifecycle")
    c.click("Add rule")
    c.page.get_by_label("After days").fill("7")
    c.page.get_by_label("Only keys that begin with").fill("tmp/<b>$&")
    c.click("Save rule")
    c.told("Saved.")
    c.says("deletes objects after 7 days")
    rule = s3.get_bucket_lifecycle_configuration(Bucket="made")["Rules"][0]
    assert rule["Expiration"] == {"Days": 7} and rule["Filter"] == {"Prefix": "tmp/<b>$&"}
    c.click("Try the rules")
    c.says("Nothing would be deleted.")
    c.click("Add rule")
    c.page.get_by_label("Delete", exact=True).select_option("Noncurrent")
    c.page.get_by_label("Keep the newest").fill("3")
    c.click("Save rule")
    c.told("Saved.")
    c.says("except the 3 newest")
    c.click("Edit as XML")
    text = c.page.get_by_label("Configuration").input_value()
    c.page.get_by_label("Configuration").fill(text.replace("<Days>7</Days>", "<Days>9</Days>"))
    c.click("Save")
    c.told("Saved.")
    c.says("deletes objects after 9 days")
    c.page.get_by_role("button", name="Delete rule").first.click()
    c.confirm("Delete rule")
    c.told("Saved.")
    c.page.get_by_text("deletes objects after 9 days").wait_for(state="detached")
    assert len(s3.get_bucket_lifecycle_configuration(Bucket="made")["Rules"]) == 1

    c.go("buckets/made/cors")
    c.click("Add rule")
    c.page.get_by_label("Origins").fill("https://www.example.com")
    c.click("Save rule")
    c.told("Saved.")
    c.says("GET, HEAD from https://www.example.com")
    assert s3.get_bucket_cors(Bucket="made")["CORSRules"][0]["AllowedMethods"] == ["GET", "HEAD"]

    c.go("buckets/made/public")
    c.says("Nobody can read or write this bucket without credentials.")
    c.page.get_by_label("Refuse policies that make the bucket public").uncheck()
    c.page.get_by_label("Limit a public policy").uncheck()
    c.click("Save")
    c.told("Saved.")
    c.go("buckets/made/policy")
    c.click("Anybody may read", exact=True)
    c.click("Save policy")
    c.told("The policy was saved.")
    assert json.loads(s3.get_bucket_policy(Bucket="made")["Policy"])["Statement"][0]["Sid"] == "PublicRead"
    c.page.get_by_label("Policy in JSON").fill('{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:Nothing", "Principal": "*", "Resource": "*"}]}')
    c.click("Save policy")
    c.page.locator(".box.error").wait_for()
    c.click("Delete policy…")
    c.confirm("Delete policy")
    c.page.get_by_role("button", name="Delete policy…").wait_for(state="detached")

    c.go("buckets/made/tags")
    c.page.get_by_label("Tag 1").fill("team")
    c.page.get_by_label("Value 1").fill("blue")
    c.click("Save tags")
    c.told("Saved.")
    assert s3.get_bucket_tagging(Bucket="made")["TagSet"] == [{"Key": "team", "Value": "blue"}]

    c.go("buckets/made/storage")
    c.page.get_by_label("Maximum number of versions").fill("100")
    c.page.locator("form").filter(has=c.page.get_by_label("Maximum number of versions")).get_by_role("button", name="Save").click()
    c.told("Saved.")

    c.go("buckets/made/versions")
    c.page.get_by_label("Versioning").select_option("Suspended")
    c.click("Save")
    c.told("Saved.")
    assert s3.get_bucket_versioning(Bucket="made")["Status"] == "Suspended"

    s3.create_multipart_upload(Bucket="made", Key="unfinished")
    s3.put_object(Bucket="made", Key="a", Body=b"a")
    c.go("buckets/made")
    c.page.get_by_role("row").filter(has_text="unfinished").get_by_role("button", name="Delete").click()
    c.told("The upload was deleted.")
    c.click("Delete bucket…")
    c.confirm("Delete bucket", typed="made")
    c.says("The bucket is not empty")
    c.confirm("Delete everything", typed="made")
    c.told("The bucket made was deleted.")
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == []
