"""The console with a very large file and with very many objects: make console-long. The figures are printed, and nothing
depends on them."""

import os
import subprocess
import time

import pytest

from conftest import BINARY
from test_console_objects import shown, test_upload_is_resumed  # noqa: F401

if "ORCAS_CONSOLE_LONG" not in os.environ:
    pytest.skip("these tests take minutes: make console-long", allow_module_level=True)

os.environ["ORCAS_CONSOLE_UPLOAD"] = str(5 << 30)
KEYS = 1_000_000


def memory(console):
    """Returns the resident memory of the server and the heap of the page, in MiB."""
    with open(f"/proc/{console.server.process.pid}/status") as f:
        resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) >> 10
    return resident, console.page.evaluate("performance.memory.usedJSHeapSize") >> 20


def test_memory_after_a_large_upload(shown, tmp_path):
    test_upload_is_resumed(shown, tmp_path)
    print("5 GiB: server %d MiB, page %d MiB" % memory(shown))


def test_million_keys(shown):
    server = shown.server
    subprocess.run([str(BINARY), "perf", "run", "--endpoint", server.endpoint, "--access-key", server.access, "--secret-key", server.secret,
                    "--bucket", "shown", "--scenario", "growth", "--keys", str(KEYS)], check=True, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    shown.page.reload()
    shown.says("500 rows so far")
    first = time.monotonic() - began
    for rows in range(2, 7):
        shown.click("Load more")
        shown.says(f"{min(rows * 500, 2000):,} rows so far")
        if rows > 4:
            shown.says("rows are no longer shown")
    print(f"{KEYS:,} keys: first page after {first:.2f} s; server %d MiB, page %d MiB" % memory(shown))
