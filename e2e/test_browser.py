"""Pages of other origins in a real browser, Debian's Chromium: CORS, the SDK for JavaScript, presigned URLs, HTML forms."""

import shutil
import uuid

from program import HERE, INSTALLED, programs  # noqa: F401


def test_pages_of_other_origins(programs):
    for program, package in (("chromium", "chromium"), ("node", "nodejs")):  # unlike other programs, they are not optional
        assert shutil.which(program), f"{program} is missing: install it (Debian: apt-get install {package})"
    for name in ("use_browser.mjs", "browser_page.mjs"):  # next to the modules that they import
        (INSTALLED / name).write_bytes((HERE / name).read_bytes())
    programs.run("node", INSTALLED / "use_browser.mjs", "browser-" + uuid.uuid4().hex[:16])
