"""The console in Debian's Chromium: fixtures and helpers for test_console*.py.

A test fails if the page throws, logs an error, violates its Content-Security-Policy, or sends a request to another
server. ORCAS_SCREENSHOTS is a directory for pictures of all pages; without it, none are taken.
"""

import json
import os
import pathlib
import re
import shutil
import time

from playwright.sync_api import expect, sync_playwright

from conftest import HANG_SECONDS
from program import INSTALLED

PATIENCE = int(os.environ.get("ORCAS_CONSOLE_PATIENCE", HANG_SECONDS)) * 1000  # milliseconds; only detects hangs
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}

# Errors that the browser logs by itself for responses that the page expects.
EXPECTED = re.compile(r"Failed to load resource: the server responded with a status of (400|401|403|404|409|429)")


def launch():
    """Starts the browser, and stops it at the end."""
    path = shutil.which("chromium")
    assert path, "chromium is missing: install it (Debian: apt-get install chromium)"
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield b
        b.close()


def admin_url(server):
    """Returns the URL of the admin listener."""
    return re.search(r"admin\s+(https?://\S+)", server.banner).group(1)


def settled(page):
    """Waits until nothing is loading."""
    expect(page.locator(".spinner")).to_have_count(0, timeout=PATIENCE)


def until(page, condition):
    """Waits until condition() is true, while the page goes on."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < deadline, "this never happens"
        page.wait_for_timeout(20)


class Console:
    """A browser that shows the console of a server."""

    def __init__(self, browser, server, **options):
        self.server, self.base = server, admin_url(server)
        self.problems, self.requests = [], []
        self.context = browser.new_context(ignore_https_errors=True, accept_downloads=True, **({"viewport": DESKTOP} | options))
        self.context.set_default_timeout(PATIENCE)
        self.page = self.open()

    def open(self):
        """Returns a new page that is watched."""
        page = self.context.new_page()
        page.on("pageerror", lambda e: self.problems.append(f"error in the page: {e}"))
        page.on("console", lambda m: m.type in ("error", "warning") and not EXPECTED.search(m.text) and self.problems.append(f"console: {m.text}"))
        page.on("request", lambda r: self.requests.append(r.url))
        return page

    def sign_in(self, access=None, secret=None):
        self.page.goto(self.base + "/")
        self.page.get_by_label("Access key").fill(access or self.server.access)
        self.page.get_by_label("Secret key").fill(secret or self.server.secret)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.locator("main#main h1").wait_for()
        return self

    def go(self, path):
        """Opens a page of the console, and waits until it is the one that is shown."""
        self.page.goto(f"{self.base}/console/#/{path}")
        self.page.locator(f"main[data-page={json.dumps(path)}] h1, main.sign-in").wait_for()
        return self.page

    def button(self, name, **more):
        return self.page.get_by_role("button", name=name, **more)

    def click(self, name, exact=True):
        self.button(name, exact=exact).click()

    def menu(self, of, item):
        """Chooses an item of the menu of a row."""
        self.click(f"Actions for {of}")
        self.page.locator(".menu-items").get_by_role("button", name=item).click()

    def confirm(self, action, typed=None):
        """Answers the question that a dialog asks."""
        dialog = self.page.locator("dialog").last
        if typed is not None:
            dialog.locator("input").fill(typed)
        dialog.get_by_role("button", name=action, exact=True).click()

    def says(self, text):
        """Waits until the page shows a text."""
        self.page.get_by_text(text).first.wait_for()

    def told(self, text):
        """Waits for a message, and dismisses it, so that it is not taken for the next one."""
        message = self.page.locator(".toast").filter(has_text=text)
        message.wait_for()
        message.get_by_role("button", name="Dismiss").evaluate_all("buttons => buttons.forEach((b) => b.click())")  # unless it has just gone by itself
        message.wait_for(state="detached")

    def answered(self, method, part):
        """Waits, at the end of a with block, for the response to a request with this part in its URL."""
        return self.page.expect_response(lambda r: r.request.method == method and part in r.url)

    def check(self):
        """Fails if the page did anything that it must not do."""
        own = (self.base + "/", "data:", "blob:" + self.base, "about:", "chrome-extension:")
        foreign = [url for url in self.requests if not url.startswith(own)]
        assert not self.problems, self.problems
        assert not foreign, foreign

    def close(self):
        self.context.close()


def consoles(start, browser):
    """Starts a server with a console, and yields a function that opens one: it signs in as root unless told otherwise."""
    opened = []
    server = start("--admin-address", "127.0.0.1:0")

    def show(access=None, secret=None, to=server, signed_in=True, **options):
        c = Console(browser, to, **options)
        opened.append(c)
        return c.sign_in(access, secret) if signed_in else c

    show.server = server
    yield show
    for c in opened:
        c.check()
        c.close()


def check_accessibility(console, browser):
    """Fails if axe-core finds a serious violation on the present page. The page's policy does not allow scripts that are
    not its own, so axe runs in a context without the policy, with the same session."""
    state = console.context.storage_state()
    context = browser.new_context(
        bypass_csp=True, ignore_https_errors=True, storage_state=state, viewport=console.page.viewport_size, reduced_motion="reduce",
        color_scheme="dark" if console.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light")
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        page.goto(console.page.url)
        page.locator("h1").first.wait_for()
        settled(page)
        run_axe(page, page.url)
    finally:
        context.close()


def run_axe(page, what):
    """Fails if axe-core finds a serious violation on a page whose context bypasses the policy."""
    if page.evaluate("typeof axe") == "undefined":
        page.add_script_tag(path=str(INSTALLED / "node_modules" / "axe-core" / "axe.min.js"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [(v["id"], v["help"], [n["html"][:200] for n in v["nodes"]][:3]) for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, f"{what}: {json.dumps(serious, indent=1)}"


def screenshot(console, name, full_page=True):
    """Takes a picture of the present page if ORCAS_SCREENSHOTS is set. With full_page, it is as high as the page."""
    directory = os.environ.get("ORCAS_SCREENSHOTS")
    if directory:
        pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
        before = len(console.problems)
        console.page.screenshot(path=str(pathlib.Path(directory) / f"{name}.png"), full_page=full_page)
        del console.problems[before:]  # Playwright adds a style to the page, which its policy refuses
