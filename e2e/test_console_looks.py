"""The console's dialogs and forms, and its pages with content, on a desktop and a phone, light and dark. Each is as wide as
the window, axe-core finds no serious violation, and ORCAS_SCREENSHOTS has a picture of it. (test_all_pages in
test_console.py does the same for the pages of a server that is new.)"""

import datetime
import math

import pytest

from playwright.sync_api import expect

from console import DESKTOP, PATIENCE, PHONE, run_axe, screenshot, settled

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf50000003030180d5a7bb32"
    "0000000049454e44ae426082")


def show_figures(page):
    """Answers the page with the traffic of an hour, the usage of a month, and warnings, which would take as long to come about."""
    def answer(path, change):
        def fulfill(route):
            response = route.fetch()
            document = response.json()
            change(document)
            route.fulfill(response=response, json=document)
        page.route(f"**/-/admin/{path}", fulfill)

    now = datetime.datetime.now(datetime.timezone.utc)
    ago = lambda **t: (now - datetime.timedelta(**t)).isoformat()  # noqa: E731
    wave = lambda i: 1 + math.sin(i / 20)  # noqa: E731
    answer("history", lambda d: d.update(points=[
        {"time": ago(seconds=10 * (360 - i)), "requests": round(4000 * wave(i)), "errors": i % 7, "bytes_in": round(3e8 * wave(i)), "bytes_out": round(5e8 * wave(i + 9)),
         "p50_seconds": 0.0008, "p99_seconds": 0.004 * wave(i)} for i in range(360)]))
    answer("usage?*", lambda d: d.update(points=[
        {"time": ago(days=30 - i), "objects": 1000 * i, "bytes": 10 ** 9 * i, "versions": 100 * i, "version_bytes": 10 ** 8 * i} for i in range(30)]))
    answer("status", lambda d: d.update(warnings=[
        {"problem": "the drive is nearly full: 1.2 GiB can be written", "action": "delete objects, or enlarge the drive"}]))


class Looks:
    """Takes pictures of a console."""

    def __init__(self, c, name):
        self.c, self.name = c, name

    def at(self, what):
        settled(self.c.page)
        width = self.c.page.evaluate("document.documentElement.scrollWidth")
        assert width <= self.c.page.viewport_size["width"], f"{what} is {width} pixels wide"
        screenshot(self.c, f"{what}-{self.name}", full_page=not self.c.page.locator("dialog").count())
        run_axe(self.c.page, what)

    def close(self):
        self.c.page.keyboard.press("Escape")
        self.c.page.locator("dialog").wait_for(state="detached")


@pytest.fixture(params=[(DESKTOP, "light"), (PHONE, "dark"), (DESKTOP, "dark"), (PHONE, "light")], ids=["desktop-light", "phone-dark", "desktop-dark", "phone-light"])
def looks(request, console):
    """A bucket with content, and a console in a window of a size and a color scheme. axe-core needs a page without its policy."""
    size, scheme = request.param
    s3 = console.server.client()
    s3.create_bucket(Bucket="shown")
    s3.put_bucket_versioning(Bucket="shown", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"first", b"# Notes\n\nSome lines of text.\n" * 20):
        s3.put_object(Bucket="shown", Key="notes.md", Body=body, ContentType="text/markdown", Metadata={"author": "somebody"}, Tagging="team=blue")
    s3.put_object(Bucket="shown", Key="photos/sea.png", Body=PNG, ContentType="image/png")
    s3.put_object(Bucket="shown", Key="a-name-without-any-space-that-is-longer-than-a-phone-is-wide-" + "x" * 60, Body=b"x")
    s3.put_bucket_lifecycle_configuration(Bucket="shown", LifecycleConfiguration={"Rules": [
        {"ID": "old logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}},
        {"ID": "versions", "Status": "Disabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 3}}]})
    c = console(signed_in=False, viewport=size, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    c.s3 = s3
    return Looks(c, f"{scheme}-{size['width']}")


def test_objects(looks):
    c = looks.c
    c.page.goto(c.base + "/")
    c.page.get_by_label("Access key").fill(c.server.access)
    c.page.get_by_label("Secret key").fill("wrong")
    c.click("Sign in")
    c.says("the secret key is wrong")
    looks.at("sign-in")
    c.sign_in()
    if c.page.viewport_size == PHONE:
        c.click("Menu")
        looks.at("menu")
        c.page.keyboard.press("Escape")
    c.go("buckets")
    c.page.locator(".page-head").get_by_role("button", name="Create bucket").click()
    c.page.get_by_label("Name", exact=True).fill("Not Valid")
    c.says("lowercase letters, digits, hyphens and periods only")
    looks.at("create-bucket")
    looks.close()

    c.go("objects/shown")
    c.page.get_by_label("Select notes.md").check()
    c.page.get_by_label("Files to upload").set_input_files([
        {"name": "report.txt", "mimeType": "text/plain", "buffer": b"report"}, {"name": "y" * 1025, "mimeType": "text/plain", "buffer": b"too long"}])
    c.says("1 upload failed")
    looks.at("objects-uploads")
    c.page.locator(".uploads").get_by_role("button", name="Close").click()
    c.click("Actions for notes.md")
    looks.at("objects-menu")
    c.page.keyboard.press("Escape")
    c.page.get_by_label("Show versions").check()
    c.says("current")
    looks.at("objects-versions")
    c.page.get_by_label("Show versions").uncheck()
    expect(c.page.locator("button.name")).to_have_count(3, timeout=PATIENCE)
    c.click("notes.md")
    c.says("Some lines of text.")
    for view in ("Preview", "Details", "Tags", "Versions", "Protection", "Copy or move"):
        c.page.get_by_role("group", name="View").get_by_role("button", name=view).click()
        looks.at(f"object-{view.lower().replace(' ', '-')}")
    c.page.get_by_role("group", name="View").get_by_role("button", name="Details").click()
    c.click("Edit metadata")
    looks.at("object-metadata")
    looks.close()
    c.menu("notes.md", "Share…")
    c.click("Create link")
    c.page.get_by_label("link", exact=True).wait_for()
    looks.at("share")
    looks.close()
    c.menu("photos/", "Delete…")
    looks.at("delete")
    looks.close()


def test_bucket_settings(looks):
    c = looks.c
    c.sign_in()
    c.go("buckets/shown/lifecycle")
    c.says("old logs")
    c.click("Try the rules")
    c.says("Nothing would be deleted.")
    looks.at("lifecycle-rules")
    c.click("Add rule")
    c.page.get_by_label("After days").fill("x")
    looks.at("lifecycle-form")
    c.click("Cancel")
    c.click("Edit as XML")
    looks.at("lifecycle-xml")
    c.go("buckets/shown/cors")
    c.click("Add rule")
    looks.at("cors-form")
    c.go("buckets/shown/policy")
    c.click("Only over HTTPS")
    looks.at("policy-template")
    c.page.get_by_label("Policy in JSON").fill("{")
    c.says("Line 1")
    looks.at("policy-error")
    c.click("Anybody may read", exact=True)
    c.click("Save policy")
    c.page.locator(".box.error").wait_for()  # the bucket blocks public policies
    looks.at("policy-refused")
    c.click("Try it in the simulator")
    c.page.get_by_label("Who").select_option("anonymous")
    c.click("Simulate")
    c.says("PublicRead")
    looks.at("simulator-result")


def test_access(looks):
    c = looks.c
    c.sign_in()
    c.go("keys")
    c.page.locator(".page-head").get_by_role("button", name="Create key").click()
    looks.at("create-key")
    c.page.get_by_label("Name").fill("reader")
    c.confirm("Create key")
    c.says("The secret key is shown only now.")
    looks.at("key-secret")
    c.click("Done")
    c.says("active")
    looks.at("keys-list")
    c.menu("reader", "Delete…")
    looks.at("delete-key")
    looks.close()
    c.go("policies")
    c.click("Create policy")
    looks.at("create-policy")
    looks.close()
    c.go("users")
    c.page.locator(".page-head").get_by_role("button", name="Create user").click()
    c.page.get_by_label("Name").fill("alice")
    c.confirm("Create user")
    c.click("alice")
    c.click("Create access key")
    c.says("The secret key is shown only now.")
    looks.at("user")
    looks.close()
    looks.at("users-list")
    c.go("roles")
    c.click("Create role")
    looks.at("create-role")


def test_server(looks, tmp_path):
    c = looks.c
    c.sign_in()
    c.go("maintenance/check")
    c.click("Check now")
    c.says("Everything is consistent.")
    looks.at("check-result")
    c.go("maintenance/backup")
    c.page.get_by_label("Directory").fill(str(tmp_path / "backups"))
    c.click("Back up now")
    c.says("complete")
    looks.at("backup-result")
    c.go("trace")
    c.says("Waiting for requests")
    c.s3.list_objects_v2(Bucket="shown")
    with pytest.raises(Exception, match="404"):
        c.s3.head_object(Bucket="shown", Key="missing/" + "z" * 100)
    c.page.get_by_role("cell").get_by_text("missing").first.wait_for()
    looks.at("trace-rows")
    c.go("log")
    c.page.get_by_role("log").get_by_text("store open").wait_for()
    looks.at("log-rows")
    show_figures(c.page)
    c.go("")
    settled(c.page)
    looks.at("overview-in-use")
    c.go("buckets/shown")
    settled(c.page)
    looks.at("usage")
    c.page.unroute_all()
    c.server.kill()
    c.go("keys")
    c.says("The server cannot be reached.")
    looks.at("unreachable")
    c.problems[:] = [p for p in c.problems if "net::ERR_" not in p]  # the browser logs each failed connection
