"""The sessions that README.md shows are run as they stand there."""

import os
import pathlib
import re
import subprocess
import sys

from conftest import HANG_SECONDS, ROOT

CREDENTIALS = {"access": "my-access-key", "secret": "my-secret-key"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_sessions(start, tmp_path):
    shell = next(b for b in blocks("sh") if "aws s3 mb" in b)
    (python,) = blocks("python")
    script = tmp_path / "session.py"
    script.write_text(python)
    s = start(**CREDENTIALS)
    session = shell.replace("http://127.0.0.1:9000", s.endpoint) + f"\n{sys.executable} {script}\n"
    assert s.endpoint in session and s.access in session and s.secret in session
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))}
    environ |= {"PATH": f"{pathlib.Path(sys.executable).parent}:{environ['PATH']}", "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_EC2_METADATA_DISABLED": "true"}
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", session], cwd=work, env=environ, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello, orca" in done.stdout and "b'...'" in done.stdout and "'greetings/', 'locks/', 'thumbs/'" in done.stdout
    assert (work / "copy-of-my-bucket" / "greetings" / "hello.txt").read_text() == "hello, orca\n"
    link = done.stdout.strip().splitlines()[-1]
    assert s.http("GET", link).data == b"..."


def test_every_setting_is_documented():
    """Names and defaults of README.md, docs/configuration.md and the source are the same."""
    source = (ROOT / "cmd/orcas/server/settings.go").read_text()
    table = source[source.index("var variables"):source.index("// ReadSettings")]
    names = set(re.findall(r'"(ORCAS_\w+)"', table))
    assert len(names) >= 13
    readme = (ROOT / "README.md").read_text()
    manual = (ROOT / "docs/configuration.md").read_text()
    for name in names:
        rows = [re.search(rf"^\|[^|]*`{name}`[^|]*\|([^|]*)\|", text, re.M) for text in (readme, manual)]
        assert all(rows), name
        if "ROOT" not in name:
            assert rows[0].group(1) == rows[1].group(1), name
