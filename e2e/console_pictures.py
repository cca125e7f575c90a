"""Makes the pictures of the console in docs/images: make console-pictures."""

import sys

from playwright.sync_api import expect

from console import Console, launch, settled
from conftest import ROOT, Server, pattern

IMAGES = ROOT / "docs" / "images"


def main(directory):
    server = Server(f"{directory}/data", "--admin-address", "127.0.0.1:0", env={"ORCAS_LOG": "errors"})
    browser = launch()
    console = Console(next(browser), server)
    page = console.page
    try:
        IMAGES.mkdir(parents=True, exist_ok=True)
        page.set_viewport_size({"width": 1100, "height": 720})
        console.sign_in()
        console.go("first")
        console.click("Create bucket")
        console.click("Create key")
        page.locator(".chips").wait_for()
        for element in page.locator(".code pre").all()[:2]:  # no picture has a key, even of a server that is gone
            element.evaluate("e => { e.textContent = e.textContent.replace(/./g, '•'); }")
        page.locator(".chips").get_by_role("button", name="rclone").click()
        block = page.get_by_label("settings for rclone", exact=True)
        block.evaluate(r"e => { e.textContent = e.textContent.replace(/(access_key_id = |secret_access_key = ).*/g, '$1...').replace(/127.0.0.1:\d+/, '127.0.0.1:9000'); }")
        page.set_viewport_size({"width": 1100, "height": 1290})
        page.screenshot(path=IMAGES / "console-first.png")
        page.set_viewport_size({"width": 1100, "height": 720})
        s3 = server.client()
        for name, kind in (("report.pdf", "application/pdf"), ("notes.md", "text/markdown"), ("photos/sea.jpg", "image/jpeg"), ("logs/today.log", "text/plain")):
            s3.put_object(Bucket="my-bucket", Key=name, Body=pattern(90_000), ContentType=kind)
        for i in range(3000):
            s3.put_object(Bucket="my-bucket", Key=f"small/{i % 1500}", Body=pattern(2000, i % 900))
            if i % 1000 == 999:
                page.wait_for_timeout(10_000)  # the traffic is measured every 10 seconds
        console.go("objects/my-bucket")
        settled(page)
        page.screenshot(path=IMAGES / "console-objects.png")
        console.go("")
        page.set_viewport_size({"width": 1280, "height": 1100})
        expect(page.locator(".stat").filter(has_text="Size for clients")).not_to_contain_text("0 B", timeout=120_000)  # counted every minute
        page.screenshot(path=IMAGES / "console-overview.png")
    finally:
        console.close()
        next(browser, None)
        server.kill()


if __name__ == "__main__":
    main(sys.argv[1])
