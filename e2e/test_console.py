"""The pages of the console: signing in, first steps, keys, users, policies, and maintenance."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import urllib.request

import botocore.exceptions
import pytest
from playwright.sync_api import expect

from console import PATIENCE, PHONE, Console, check_accessibility, screenshot, settled
from conftest import BINARY, HANG_SECONDS, error_of
from program import INSTALLED
from proxy import Proxy

PAGES = [
    "", "first", "connect", "buckets", "buckets/shown", "buckets/shown/versions", "buckets/shown/lifecycle", "buckets/shown/policy", "buckets/shown/public",
    "buckets/shown/cors", "buckets/shown/storage", "buckets/shown/tags", "objects/shown", "keys", "users", "groups", "roles", "policies", "simulator", "accounts",
    "maintenance/scrub", "maintenance/reclaim", "maintenance/check", "maintenance/backup", "maintenance/lifecycle", "maintenance/encryption",
    "maintenance/tools", "trace", "log",
]


RCLONE = ["sh", "-ec", "cat > rclone.conf; echo hello > hello.txt; rclone --config rclone.conf copy hello.txt orcas:my-bucket/rclone/; rclone --config rclone.conf cat orcas:my-bucket/rclone/hello.txt"]
NODE = ["node", "--input-type=module", "-"]


def login_link(server):
    environ = {"ORCAS_ROOT_ACCESS_KEY": server.access, "ORCAS_ROOT_SECRET_KEY": server.secret, "PATH": os.environ["PATH"]}
    address = re.search(r"admin\s+http://(\S+)", server.banner).group(1)
    done = subprocess.run([str(BINARY), "admin", "login-link", "--admin-address", address], env=environ, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    return done.stdout.strip()


def test_sign_in_and_out(console):
    c = console(signed_in=False)
    c.page.goto(c.base + "/")
    assert c.page.url == c.base + "/console/"
    c.page.get_by_label("Access key").fill(c.server.access)
    c.page.get_by_label("Secret key").fill("a wrong secret")
    c.click("Sign in")
    c.says("the secret key is wrong")
    c.page.get_by_label("Secret key").fill(c.server.secret)
    c.click("Sign in")
    c.says("Overview")
    second = c.open()  # another tab has the same session
    second.goto(c.base + "/console/")
    second.get_by_role("heading", name="Overview").wait_for()
    other = console()
    c.click("Sign out everywhere")
    c.page.get_by_role("button", name="Sign in").wait_for()
    other.go("keys")
    other.page.get_by_role("button", name="Sign in").wait_for()
    cookies = c.context.cookies()
    assert not cookies, cookies


def test_login_link(console):
    link = login_link(console.server)
    c = console(signed_in=False)
    c.page.goto(link)
    c.says("Overview")
    assert "link=" not in c.page.url
    c.click("Sign out")
    c.page.goto(login_link(console.server))  # only the part after # changes, so the browser does not load the page again
    c.says("Overview")
    assert "link=" not in c.page.url
    other = console(signed_in=False)
    other.page.goto(link)
    other.says("The link has been used or has expired")


def test_first_steps(console, tmp_path):
    """A newcomer's path: a bucket, a key, a client's settings, a test, an upload and a link, with the page alone."""
    c = console()
    c.page.get_by_role("link", name="First steps").first.click()
    c.click("Create bucket")
    c.click("Create key")
    c.click("Test it")
    c.says("Delete: OK")
    for step in ("Upload: OK", "Read back and compare: OK"):
        c.says(step)
    screenshot(c, "first-done")
    environ = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", "RESTIC_PASSWORD": "p"}
    (tmp_path / "node_modules").symlink_to(INSTALLED / "node_modules")
    for client, command in (("aws-cli", ["sh", "-e"]), ("boto3", [sys.executable]), ("curl", ["sh", "-e"]), ("restic", ["sh", "-e"]), ("rclone", RCLONE), ("JavaScript", NODE)):
        c.page.locator(".chips").get_by_role("button", name=client, exact=True).click()
        text = c.page.get_by_label(f"settings for {client}", exact=True).inner_text()
        assert shutil.which(command[0]), f"{command[0]} is missing: .programs/ready installs it"
        done = subprocess.run(command, input=text, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_SECONDS)
        assert done.returncode == 0, f"{client}: {text}\n{done.stdout}{done.stderr}"
    c.page.get_by_role("link", name="Open my-bucket").click()
    (tmp_path / "picture.txt").write_text("a file to share")
    c.page.get_by_label("Files to upload").set_input_files(str(tmp_path / "picture.txt"))
    c.says("1 file uploaded")
    c.menu("picture.txt", "Share…")
    c.click("Create link")
    link = c.page.get_by_label("link", exact=True).inner_text()
    with urllib.request.urlopen(link, timeout=HANG_SECONDS) as response:
        assert response.read() == b"a file to share"
        assert response.headers["Content-Disposition"] == "attachment; filename=picture.txt"
    secret = c.server.secret
    assert secret not in c.page.content() and secret not in c.server.log


@pytest.mark.parametrize("size,scheme", [({"width": 1280, "height": 800}, "light"), (PHONE, "dark"), ({"width": 1280, "height": 800}, "dark"), (PHONE, "light")])
def test_all_pages(console, browser, size, scheme):
    """Every page shows itself without an error, and axe-core finds no serious violation."""
    s3 = console.server.client()
    s3.create_bucket(Bucket="shown")
    s3.put_object(Bucket="shown", Key="folder/a.txt", Body=b"text")
    s3.put_object(Bucket="shown", Key="b.txt", Body=b"text")
    c = console(viewport=size, color_scheme=scheme)
    name = f"{scheme}-{size['width']}"
    for path in PAGES:
        c.go(path)
        settled(c.page)
        assert c.page.locator(".box.error").count() == 0, path
        width = c.page.evaluate("document.documentElement.scrollWidth")
        assert width <= size["width"], f"{path} is {width} pixels wide"
        screenshot(c, f"{path.replace('/', '-') or 'overview'}-{name}")
        check_accessibility(c, browser)


def test_tls(start, browser):
    """Over HTTPS, the cookie is bound to the host."""
    server = start("--tls-self-signed", "--admin-tls-self-signed", "--admin-address", "127.0.0.1:0")
    c = Console(browser, server).sign_in()
    try:
        c.go("first")
        c.click("Create bucket")
        c.click("Create key")
        c.click("Test it")
        c.says("Delete: OK")
        cookie = c.context.cookies()[0]
        assert cookie["name"].startswith("__Host-") and cookie["secure"] and cookie["httpOnly"]
        c.check()
    finally:
        c.close()


def test_behind_a_proxy(start, browser, tmp_path):
    """A proxy with another name and a base path, and an address of S3 for other people."""
    proxy = Proxy("/orcas/")
    base = f"http://console.localhost:{proxy.server_port}/orcas"
    server = start("--admin-address", "127.0.0.1:0", env={"ORCAS_CONSOLE_URL": base, "ORCAS_PUBLIC_URL": "https://s3.example.com"})
    c = Console(browser, server)
    host, port = c.base.removeprefix("http://").split(":")
    proxy.upstream, c.base = (host, int(port)), base
    try:
        c.sign_in()
        assert c.page.url == base + "/console/"
        c.go("first")
        c.click("Create bucket")
        c.click("Create key")
        c.says("https://s3.example.com")
        c.click("Test it")
        c.says("Delete: OK")
        c.page.get_by_role("link", name="Open my-bucket").click()
        c.page.get_by_label("Files to upload").set_input_files({"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"x" * (20 << 20)})
        c.says("1 file uploaded")
        c.page.get_by_label("Select a.bin").check()
        with c.page.expect_download() as download:
            c.click("Download as ZIP")
        assert os.path.getsize(download.value.path()) > 20 << 20
        c.menu("a.bin", "Share…")
        c.click("Create link")
        assert c.page.get_by_label("link", exact=True).inner_text().startswith("https://s3.example.com/my-bucket/a.bin?")
        c.go("trace")
        c.says("Waiting for requests")
        server.client().list_buckets()
        c.page.get_by_role("cell", name="ListBuckets").wait_for()
        c.check()
    finally:
        c.close()
        proxy.shutdown()


def test_phone_menu_and_keyboard(console):
    c = console(viewport=PHONE)
    c.click("Menu")
    c.page.get_by_role("link", name="Keys").click()
    c.page.get_by_role("heading", name="Keys", exact=True).wait_for()
    c.page.locator(".page-head").get_by_role("button", name="Create key").click()
    c.page.keyboard.press("Escape")
    c.page.locator("dialog").wait_for(state="detached")


def test_keyboard(console):
    """From the sign-in to the details of an object and back, without a mouse."""
    s3 = console.server.client()
    s3.create_bucket(Bucket="shown")
    s3.put_object(Bucket="shown", Key="a.txt", Body=b"text", ContentType="text/plain")
    c = console(signed_in=False)
    c.page.goto(c.base + "/")
    keys = c.page.keyboard
    expect(c.page.get_by_label("Access key")).to_be_focused(timeout=PATIENCE)
    keys.type(c.server.access)
    keys.press("Tab")
    keys.type(c.server.secret)
    keys.press("Enter")
    c.says("Overview")
    c.go("objects/shown")
    menu = c.button("Actions for a.txt")
    menu.focus()
    keys.press("Enter")
    expect(c.button("Details", exact=True)).to_be_focused(timeout=PATIENCE)
    keys.press("ArrowDown")
    expect(c.button("Download", exact=True)).to_be_focused(timeout=PATIENCE)
    keys.press("Escape")
    expect(menu).to_be_focused(timeout=PATIENCE)
    keys.press("Enter")
    expect(c.button("Details", exact=True)).to_be_focused(timeout=PATIENCE)
    keys.press("Enter")
    c.page.locator("dialog pre").wait_for()
    keys.press("Escape")
    c.page.locator("dialog").wait_for(state="detached")
    expect(menu).to_be_focused(timeout=PATIENCE)
    c.page.reload()
    c.page.locator("main h1").wait_for()
    keys.press("Tab")
    expect(c.page.get_by_role("link", name="Skip to the content")).to_be_focused(timeout=PATIENCE)
    keys.press("Enter")
    expect(c.page.locator("main")).to_be_focused(timeout=PATIENCE)


def test_encryption(start, browser):
    server = start("--admin-address", "127.0.0.1:0", env={"ORCAS_MASTER_KEY": secrets.token_hex(32)})
    s3 = server.client()
    s3.create_bucket(Bucket="secret")
    c = Console(browser, server).sign_in()
    try:
        c.go("buckets/secret/storage")
        c.click("Turn on")
        c.says("New objects are encrypted (AES256).")
        assert s3.put_object(Bucket="secret", Key="a", Body=b"a")["ServerSideEncryption"] == "AES256"
        c.go("maintenance/encryption")
        c.click("Rotate")
        c.told("The rotation has begun.")
        c.go("buckets/secret/storage")
        c.click("Turn off")
        c.says("New objects are encrypted only if the upload or the server asks for it.")
        c.check()
    finally:
        c.close()


def test_keys(console):
    s3 = console.server.client()
    s3.create_bucket(Bucket="photos")
    c = console()
    c.go("keys")
    c.page.locator(".page-head").get_by_role("button", name="Create key").click()
    c.page.get_by_label("Name").fill("reader")
    c.page.get_by_label("Only keys that begin with").fill("public/")
    c.page.get_by_label("Access", exact=True).select_option("read")
    c.page.get_by_label("Expires").select_option("30d")
    c.confirm("Create key")
    access, secret = (c.page.get_by_label(label, exact=True).inner_text() for label in ("access key", "secret key"))
    s3.put_object(Bucket="photos", Key="public/a", Body=b"a")
    reader = console.server.client(aws_access_key_id=access, aws_secret_access_key=secret)
    assert reader.get_object(Bucket="photos", Key="public/a")["Body"].read() == b"a"
    for call, key in ((reader.get_object, "private"), (reader.put_object, "public/b")):
        with pytest.raises(botocore.exceptions.ClientError) as info:
            call(Bucket="photos", Key=key)
        assert error_of(info) == ("AccessDenied", 403)
    c.click("Done")
    c.says("read “public/…” in photos")
    c.menu("reader", "Disable")
    c.told("The key is disabled.")
    with pytest.raises(botocore.exceptions.ClientError):
        reader.get_object(Bucket="photos", Key="public/a")
    c.menu("reader", "Enable")
    c.told("The key is enabled.")
    c.menu("reader", "Rotate…")
    c.confirm("Rotate")
    again = c.page.get_by_label("access key", exact=True).inner_text()
    assert again != access
    c.click("Done")
    c.says("old key until")
    c.menu("reader", "Delete…")
    c.confirm("Delete key", typed="reader")
    c.says("There are no keys yet")


def test_users_and_what_they_see(console):
    s3 = console.server.client()
    s3.create_bucket(Bucket="theirs")
    s3.create_bucket(Bucket="other")
    c = console()
    c.go("policies")
    c.click("Create policy")
    c.page.get_by_label("Name").fill("look")
    editor = c.page.get_by_label("Policy in JSON")
    editor.fill("{ not JSON")
    c.says("Line 1, column")
    editor.fill(json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"},
        {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": ["arn:aws:s3:::theirs", "arn:aws:s3:::theirs/*"]}]}))
    c.click("Save policy")
    c.page.locator("dialog").wait_for(state="detached")
    c.go("groups")
    c.click("Create group")
    c.page.get_by_label("Name").fill("lookers")
    c.confirm("Create group")
    c.go("users")
    c.click("Create user")
    c.page.get_by_label("Name").fill("alice")
    c.confirm("Create user")
    c.click("alice")
    c.page.get_by_label("Attach a policy").select_option("look")
    c.click("Attach")
    c.button("Detach look").wait_for()
    c.page.get_by_label("lookers").click()
    expect(c.page.get_by_label("lookers")).to_be_checked(timeout=PATIENCE)  # once the server has answered
    c.click("Create access key")
    access, secret = (c.page.get_by_label(label, exact=True).inner_text() for label in ("access key", "secret key"))
    user = console(access, secret)
    user.page.get_by_role("heading", name="Your buckets").wait_for()
    names = user.page.locator("nav.side a.nav").all_inner_texts()
    assert names == ["Overview", "Buckets", "Connect"]
    user.page.get_by_role("link", name="theirs").click()
    user.says("No policy allows you to upload here")
    expect(user.button("Upload files")).to_have_count(0)
    # by hand: the server decides
    user.page.get_by_label("Files to upload").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    user.page.locator(".uploads").get_by_text("Access Denied").wait_for()
    user.go("objects/other")
    user.page.locator("main .box.error").get_by_text("Access Denied").wait_for()
    user.go("keys")  # by hand
    user.says("permission for orcas:ListKeys is required")
    c.menu(access, "Disable")
    c.page.get_by_role("row").filter(has_text=access).get_by_text("disabled", exact=True).wait_for()
    user.go("objects/theirs")
    user.page.get_by_role("button", name="Sign in").wait_for()


def test_simulator(console):
    s3 = console.server.client()
    s3.create_bucket(Bucket="tested")
    c = console()
    c.go("buckets/tested/policy")
    c.click("Anybody may read below public/")
    c.click("Try it in the simulator")
    c.page.get_by_label("Who").select_option("anonymous")
    c.page.get_by_label("Resource").fill("arn:aws:s3:::tested/public/a")
    c.click("Simulate")
    c.says("PublicPrefix")
    c.page.get_by_label("Resource").fill("arn:aws:s3:::tested/private")
    c.click("Simulate")
    c.says("Not allowed by any statement")


def test_roles_and_accounts(console):
    c = console()
    c.go("users")
    c.click("Create user")
    c.page.get_by_label("Name").fill("worker")
    c.confirm("Create user")
    c.button("worker", exact=True).wait_for()
    c.go("roles")
    c.click("Create role")
    c.page.get_by_label("Name").fill("backup")
    c.page.get_by_label("Who may assume it").select_option("worker")
    c.confirm("Create role")
    c.click("backup")
    assert "worker" in c.page.get_by_label("Trust policy").input_value()
    c.page.keyboard.press("Escape")
    c.go("accounts")
    c.click("Create account")
    c.page.get_by_label("Name").fill("tenant")
    c.confirm("Create account")
    access, secret = (c.page.get_by_label(label, exact=True).inner_text() for label in ("access key", "secret key"))
    tenant = console.server.client(aws_access_key_id=access, aws_secret_access_key=secret)
    assert tenant.list_buckets()["Buckets"] == []
    c.page.get_by_role("button", name="Close").click()
    c.menu("tenant", "Disable…")
    c.confirm("Disable account")
    c.told("The account is disabled.")
    with pytest.raises(botocore.exceptions.ClientError):
        tenant.list_buckets()
    c.menu("tenant", "Enable")
    c.told("The account is enabled.")
    c.menu("tenant", "Rotate the root key…")
    c.confirm("Rotate")
    assert c.page.get_by_label("access key", exact=True).inner_text() != access
    c.page.get_by_role("button", name="Close").click()
    c.menu("tenant", "Delete…")
    c.confirm("Delete account", typed="tenant")
    c.told("The account was deleted.")
    c.page.get_by_role("row").filter(has_text="tenant").wait_for(state="detached")


def test_maintenance(console, tmp_path):
    s3 = console.server.client()
    s3.create_bucket(Bucket="kept")
    s3.put_object(Bucket="kept", Key="a", Body=b"a" * 1000)
    c = console()
    c.go("maintenance/scrub")
    c.click("Verify everything now")
    c.told("The scrub has begun.")
    c.click("Look for lost objects")
    c.says("No object is lost.")
    c.go("maintenance/reclaim")
    c.click("Free all garbage now")
    c.told("Reclaim has begun.")
    c.go("maintenance/check")
    c.page.get_by_label("Read all content, too").check()
    c.click("Check now")
    c.says("Everything is consistent.")
    c.go("maintenance/backup")
    c.page.get_by_label("Directory").fill(str(tmp_path / "backups"))
    c.click("Back up now")
    c.says("Backed up")
    c.says("complete")
    c.go("maintenance/lifecycle")
    c.click("Apply the rules now")
    c.told("The lifecycle rules are being applied.")
    c.go("maintenance/tools")
    c.click("Drop the caches")
    c.says("The caches were dropped")


def test_live(console):
    s3 = console.server.client()
    c = console()
    c.go("trace")
    c.page.get_by_label("Operation").fill("CreateBucket")
    with c.page.expect_response(lambda r: "/-/admin/trace?operation=CreateBucket" in r.url):
        c.click("Filter")
    s3.create_bucket(Bucket="traced")
    c.page.get_by_role("cell", name="traced").wait_for()
    c.click("Pause")
    c.go("log")
    c.page.get_by_role("log").get_by_text("store open").wait_for()
    c.page.get_by_label("The server logs").select_option("errors")
    c.says("The level applies until the server stops.")
    c.page.get_by_label("Show").select_option("error")
    c.page.get_by_role("log").get_by_text("Waiting for lines").wait_for()
