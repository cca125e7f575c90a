"""Attacks on the console in a real browser. Where it is possible, a test also shows that the attack would work without the
defense, or that its page did what it tried to do."""

import json
import re
import shutil

import pytest
from playwright.sync_api import Error

from console import PATIENCE, settled

MARKUP = "<img src=x onerror=window.hacked=1>\"'><script>window.hacked=1</script>"


def attack_page(console, script):
    """Stores an HTML object on the address of S3, which is another port of the same host, and returns a link to it."""
    s3 = console.server.client()
    s3.create_bucket(Bucket="attack")
    s3.put_object(Bucket="attack", Key="page.html", ContentType="text/html", Body=f"<!doctype html><title>attack</title><body><script>{script}</script>".encode())
    return s3.generate_presigned_url("get_object", {"Bucket": "attack", "Key": "page.html"})


def visit(c, link, requests=None):
    """Opens the page of the attacker in the browser of the victim. What it does must have no effect, so errors there are
    expected. Its requests to the console are added to requests."""
    page = c.context.new_page()
    if requests is not None:
        page.on("request", lambda r: r.url.startswith(c.base) and requests.append(r))
    page.goto(link)
    return page


def test_requests_of_another_port(console):
    """An HTML object on the address of S3 is same-site, so its requests have the cookie. The server refuses them all."""
    c = console()
    base = c.base
    link = attack_page(console, f"""
      window.results = {{}};
      const send = (name, url, options) => fetch(url, {{ credentials: "include", ...options }}).then(
        (r) => {{ window.results[name] = r.status; }}, () => {{ window.results[name] = "blocked"; }});
      window.finished = Promise.all([
        send("status", "{base}/-/admin/status"),
        send("reclaim", "{base}/-/admin/reclaim", {{ method: "POST", mode: "no-cors" }}),
        send("session", "{base}/-/admin/session", {{ method: "POST", mode: "no-cors", body: JSON.stringify({{ access_key: "a", secret_key: "b" }}) }}),
        send("read", "{base}/-/s3/attack/page.html", {{ mode: "no-cors" }}),
        send("delete", "{base}/-/s3/attack/page.html", {{ method: "DELETE" }}),
        send("header", "{base}/-/s3/attack/page.html", {{ headers: {{ "X-Orcas-Session": "x" }} }}),
      ]).then(() => true);
    """)
    sent = []
    page = visit(c, link, sent)
    assert page.evaluate("window.finished") is True
    results = page.evaluate("window.results")
    assert results["status"] == results["delete"] == results["header"] == "blocked", results
    assert results["read"] == "blocked"  # Cross-Origin-Resource-Policy
    answered = [(r, r.response()) for r in sent if r.method != "OPTIONS"]
    answered = [(r, response) for r, response in answered if response]
    assert len(answered) >= 2 and all(response.status == 403 for _, response in answered), [(r.url, s.status) for r, s in answered]
    with page.expect_response(lambda r: r.url.endswith("/-/s3/attack/page.html")) as response:
        page.evaluate(f"window.location = '{base}/-/s3/attack/page.html'")
    assert response.value.status == 403  # without the cookie it would be 401, and the test would show nothing
    assert console.server.client().head_object(Bucket="attack", Key="page.html")


def test_forms_of_another_port(console):
    c = console()
    link = attack_page(console, f"""
      const form = document.createElement("form");
      form.method = "post"; form.enctype = "text/plain"; form.action = "{c.base}/-/admin/reclaim?wait=true";
      document.body.append(form);
      form.submit();
    """)
    page = c.context.new_page()
    with page.expect_response(lambda r: r.url.endswith("/-/admin/reclaim?wait=true")) as response:
        page.goto(link)
    assert response.value.status == 403


def test_planted_cookie(console):
    """A page on another port can replace the cookie by that of its own session. The victim does not work in that one."""
    attacker = console()
    cookie = attacker.context.cookies()[0]
    c = console()
    link = attack_page(console, f"""document.cookie = "{cookie['name']}={cookie['value']}; path=/";""")
    mine = c.context.cookies()[0]["value"]
    visit(c, link).close()
    assert len(c.context.cookies()) == 1 and c.context.cookies()[0]["value"] == mine  # scripts cannot replace an HttpOnly cookie
    c.context.clear_cookies()
    visit(c, link).close()
    assert c.context.cookies()[0]["value"] == cookie["value"]
    c.page.reload()
    c.page.get_by_role("button", name="Sign in").wait_for()


def test_frames(console):
    c = console()
    link = attack_page(console, f"""const f = document.createElement("iframe"); f.src = "{c.base}/console/"; document.body.append(f);""")
    page = visit(c, link)
    frame = page.frame_locator("iframe")
    frame.locator("body").wait_for(state="attached")
    assert page.frames[1].url == "chrome-error://chromewebdata/", page.frames[1].url


def test_objects_do_not_run(console):
    """HTML and SVG objects, opened through the mount, are downloads; nothing of them runs in the origin of the console."""
    c = console()
    s3 = console.server.client()
    s3.create_bucket(Bucket="objects")
    for key, kind in (("a.html", "text/html"), ("a.svg", "image/svg+xml"), ("a.xml", "application/xml"), ("a", "")):
        s3.put_object(Bucket="objects", Key=key, Body=b"<svg xmlns='http://www.w3.org/2000/svg'><script>window.hacked=1</script></svg>", **({"ContentType": kind} if kind else {}))
        page = c.context.new_page()
        with page.expect_download():
            with pytest.raises(Error, match="Download is starting|net::ERR_ABORTED"):
                page.goto(f"{c.base}/-/s3/objects/{key}")
        page.close()
    s3.put_object(Bucket="objects", Key="a.txt", Body=b"<script>window.hacked=1</script>", ContentType="text/plain")
    page = c.context.new_page()
    page.goto(f"{c.base}/-/s3/objects/a.txt")
    assert page.locator("script").count() == 0 and "<script>" in page.locator("body").inner_text()


def test_markup_in_names(console):
    """Names, metadata, tags, policies and error texts are shown as they are."""
    c = console()
    s3 = console.server.client()
    s3.create_bucket(Bucket="markup")
    key = f"{MARKUP}/{MARKUP}"
    s3.put_object(Bucket="markup", Key=MARKUP.replace("/", ""), Body=MARKUP.encode(), ContentType="text/html", Metadata={"m": MARKUP})
    s3.put_object(Bucket="markup", Key=key, Body=b"")
    s3.put_bucket_tagging(Bucket="markup", Tagging={"TagSet": [{"Key": "tag", "Value": "a=+-._:/@b"}]})
    s3.put_bucket_lifecycle_configuration(Bucket="markup", LifecycleConfiguration={"Rules": [{"ID": MARKUP[:200], "Status": "Enabled", "Filter": {"Prefix": MARKUP}, "Expiration": {"Days": 1}}]})
    s3.put_bucket_policy(Bucket="markup", Policy=json.dumps({"Version": "2012-10-17", "Statement": [{"Sid": "x", "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::markup/{MARKUP}x"}]}))
    c.go("objects/markup")
    c.page.locator("button.name").first.click()
    c.page.locator("dialog pre").wait_for()
    c.page.get_by_role("group", name="View").get_by_role("button", name="Details").click()
    c.says("Metadata m")
    c.page.keyboard.press("Escape")
    for path in ("lifecycle", "policy", "tags"):
        c.go(f"buckets/markup/{path}")
        settled(c.page)
    c.go("simulator")
    c.page.get_by_label("Name").fill(MARKUP)
    c.page.get_by_label("Action").fill(MARKUP)
    c.click("Simulate")
    c.page.locator(".box.error").wait_for()
    c.go("trace")
    c.page.get_by_text("Waiting for requests").wait_for()
    with pytest.raises(Exception):
        s3.get_object(Bucket="markup", Key=MARKUP + "missing")
    c.page.get_by_role("cell").get_by_text("missing").first.wait_for()
    c.page.goto(f"{c.base}/console/#/{MARKUP}")
    c.says("Page not found")
    c.go("keys")
    assert c.page.evaluate("window.hacked") is None
    assert c.page.locator("script").count() == 2  # those of index.html


def test_wrong_host(browser, console):
    """DNS rebinding: a name that an attacker has pointed at this machine is refused."""
    port = re.search(r"admin\s+http://\S+:(\d+)", console.server.banner).group(1)
    rebound = browser.browser_type.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--host-resolver-rules=MAP evil.example.com 127.0.0.1"])
    try:
        page = rebound.new_page()
        response = page.goto(f"http://evil.example.com:{port}/console/", timeout=PATIENCE)
        assert response.status == 421 and "ORCAS_CONSOLE_URL" in page.content()
        assert page.goto(f"http://127.0.0.1:{port}/console/").status == 200
    finally:
        rebound.close()


def test_no_secrets_in_the_browser(console):
    c = console()
    state = json.dumps(c.context.storage_state()) + c.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert c.server.secret not in state and c.server.access not in state
    assert c.page.evaluate("document.cookie") == ""
    assert c.server.secret not in c.server.log
    cookie = c.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"


def test_user_without_rights(console, browser):
    """A user without any policy sees nothing, and every call by hand is refused."""
    root = console()
    root.go("users")
    root.page.locator(".page-head").get_by_role("button", name="Create user").click()
    root.page.get_by_label("Name").fill("nobody")
    root.confirm("Create user")
    root.page.get_by_role("button", name="nobody", exact=True).click()
    root.click("Create access key")
    access, secret = (root.page.get_by_label(label, exact=True).inner_text() for label in ("access key", "secret key"))
    allowed = root.page.evaluate("fetch('../-/admin/session', { headers: { 'X-Orcas-Session': localStorage['orcas.session'] } }).then((r) => r.json())")["allowed"]
    c = console(access, secret)
    assert c.page.locator("nav.side a.nav").all_inner_texts() == ["Overview", "Buckets", "Connect"]
    status = c.page.evaluate("""async () => {
      const out = {};
      for (const [method, path] of [["GET", "status"], ["GET", "trace"], ["GET", "key"], ["POST", "key?name=x&bucket=y&access=read"], ["GET", "log/stream"], ["GET", "history"],
        ["GET", "usage"], ["POST", "reclaim"], ["POST", "backup?dir=/tmp/x"], ["GET", "backup?dir=/tmp"], ["POST", "cache/flush"], ["POST", "lifecycle/preview?bucket=x"], ["GET", "account"]]) {
        out[path] = (await fetch("../-/admin/" + path, { method, headers: { "X-Orcas-Session": localStorage["orcas.session"] } })).status;
      }
      return out;
    }""")
    assert set(status.values()) == {403}, status
    assert len(allowed) > 50
