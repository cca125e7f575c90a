"""The console shows only what the policies of the user allow."""

import json

import boto3
import pytest
from playwright.sync_api import expect

from console import check_accessibility, settled
from conftest import REGION

TABS = ["Overview", "Versions and lock", "Lifecycle", "Policy", "Public access", "CORS", "Storage", "Tags"]
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::shown/own/kept.txt"}]}


@pytest.fixture
def user(console):
    """A bucket, and a function that signs in as a new user with some statements."""
    server = console.server
    s3 = server.client()
    s3.create_bucket(Bucket="shown")
    s3.put_bucket_versioning(Bucket="shown", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_policy(Bucket="shown", Policy=json.dumps(POLICY))
    s3.put_bucket_cors(Bucket="shown", CORSConfiguration={"CORSRules": [{"AllowedOrigins": ["https://a.example"], "AllowedMethods": ["GET"]}]})
    for key in ("top.txt", "own/a.txt", "own/a.txt", "own/kept.txt", "other/b.txt"):
        s3.put_object(Bucket="shown", Key=key, Body=b"text", ContentType="text/plain")
    iam = boto3.session.Session().client("iam", endpoint_url=server.endpoint, region_name=REGION, aws_access_key_id=server.access, aws_secret_access_key=server.secret)

    def sign_in(name, *statements):
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": resources} for actions, resources in statements]}))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return console(key["AccessKeyId"], key["SecretAccessKey"])

    return sign_in


def answered(c, path):
    """Opens a page, and waits for what the user may do there."""
    with c.answered("POST", "/-/console/allowed"):
        c.go("connect")
        c.go(path)
    settled(c.page)
    return c


def hidden(c, *names):
    for name in names:
        expect(c.page.locator("main, dialog").get_by_role("button", name=name, exact=True)).to_have_count(0)


def has_items(c, of, *items):
    """Checks the items of the menu of a row, when the server has answered about that row."""
    with c.answered("POST", "/-/console/allowed"):
        c.click(f"Actions for {of}")
    expect(c.page.locator(".menu-items button")).to_have_text(items)
    c.page.keyboard.press("Escape")


def chips(c, key):
    """Opens the dialog of an object, and returns its parts."""
    with c.answered("POST", "/-/console/allowed"):
        c.click(key)
    settled(c.page)
    return c.page.locator("dialog .chips button").all_inner_texts()


def tabs(c):
    return c.page.locator("nav.tabs a").all_inner_texts()


def test_reader(user, browser):
    c = user("reader", (["s3:Get*", "s3:List*"], "*"))
    answered(c, "buckets")
    c.page.get_by_role("link", name="shown").wait_for()
    hidden(c, "Create bucket")
    has_items(c, "shown", "Browse", "Settings")
    answered(c, "objects/shown")
    c.says("No policy allows you to upload here (s3:PutObject).")
    hidden(c, "Upload files", "Upload folder", "New folder")
    has_items(c, "own/", "Download as ZIP")
    has_items(c, "top.txt", "Details", "Download", "Share…")
    c.page.get_by_label("Select top.txt").check()
    c.button("Download as ZIP").wait_for()
    hidden(c, "Delete")
    c.page.locator(".drop").evaluate("""(element) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(["x"], "x.txt"));
      element.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }""")
    c.told("No policy allows you to upload here")
    expect(c.page.locator(".uploads li")).to_have_count(0)

    assert chips(c, "top.txt") == ["Preview", "Details", "Tags", "Versions", "Protection", "Copy or move"]
    c.click("Details")
    expect(c.button("Edit metadata")).to_be_disabled()
    c.says("No policy allows you to upload here")
    c.click("Tags")
    expect(c.page.locator("dialog").get_by_label("Tag 1")).to_be_disabled()
    c.says("No policy allows you to change tags here")
    c.click("Copy or move")
    c.page.locator("dialog").get_by_label("Key").fill("elsewhere")
    expect(c.button("Copy", exact=True)).to_be_enabled()  # perhaps to a bucket where he may write
    expect(c.button("Move", exact=True)).to_be_disabled()
    c.page.keyboard.press("Escape")

    answered(c, "buckets/shown")
    assert tabs(c) == TABS
    hidden(c, "Delete bucket…")
    for tab, control in {
        "versions": c.page.get_by_label("Versioning"), "public": c.page.get_by_label("Refuse new public ACLs"), "storage": c.button("Turn on"), "tags": c.page.get_by_label("Tag 1"),
    }.items():
        answered(c, f"buckets/shown/{tab}")
        expect(control).to_be_disabled()
        c.says("No policy allows you to do this (s3:Put")
    check_accessibility(c, browser)
    for tab in ("lifecycle", "cors"):
        answered(c, f"buckets/shown/{tab}")
        c.says("No policy allows you to do this (s3:Put")
        hidden(c, "Add rule", "Edit as XML", "Delete rule")
    answered(c, "buckets/shown/policy")
    expect(c.page.get_by_label("Policy in JSON")).to_have_js_property("readOnly", True)
    expect(c.button("Save policy")).to_be_disabled()
    hidden(c, "Delete policy…", "Format", "Anybody may read")


def test_user_of_a_prefix(user):
    c = user("writer", ("s3:ListBucket", "arn:aws:s3:::shown"), (["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:PutObjectTagging"], "arn:aws:s3:::shown/own/*"))
    answered(c, "objects/shown")
    c.page.get_by_role("link", name="own/").wait_for()
    c.button("Upload files").wait_for()  # keys that begin with own/ can be uploaded from here
    has_items(c, "own/", "Download as ZIP", "Delete…")
    has_items(c, "other/")
    has_items(c, "top.txt", "Details")
    answered(c, "objects/shown/other/")
    c.says("No policy allows you to upload here")
    hidden(c, "Upload files", "New folder")
    answered(c, "objects/shown/own/")
    c.page.get_by_label("Files to upload").set_input_files({"name": "new.txt", "mimeType": "text/plain", "buffer": b"new"})
    c.button("new.txt", exact=True).wait_for()
    has_items(c, "a.txt", "Details", "Download", "Share…", "Delete…")
    has_items(c, "kept.txt", "Details", "Download", "Share…")  # a policy of the bucket denies the rest
    assert chips(c, "a.txt") == ["Preview", "Details", "Copy or move"]
    c.click("Details")
    expect(c.button("Edit metadata")).to_be_enabled()
    c.page.keyboard.press("Escape")
    answered(c, "buckets/shown")
    assert tabs(c) == ["Overview"]
    hidden(c, "Delete bucket…")


def test_root_sees_everything(user, console):
    c = console()
    answered(c, "objects/shown")
    for name in ("Upload files", "Upload folder", "New folder"):
        c.button(name).wait_for()
    has_items(c, "top.txt", "Details", "Download", "Share…", "Delete…")
    answered(c, "buckets/shown")
    assert tabs(c) == TABS
    c.button("Delete bucket…").wait_for()
    answered(c, "buckets/shown/policy")
    expect(c.page.get_by_label("Policy in JSON")).to_be_editable()
