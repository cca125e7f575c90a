"""Runs the examples in README.md unchanged, except for the endpoint."""

import os
import pathlib
import re
import subprocess
import sys

from conftest import BINARY, HANG_SECONDS, ROOT

CREDENTIALS = {"access": "my-access-key", "secret": "my-secret-key"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_examples(start, tmp_path):
    shell = next(b for b in blocks("sh") if "aws s3 mb" in b) + next(b for b in blocks("sh") if "orcas mb" in b)
    (python,) = blocks("python")
    script = tmp_path / "session.py"
    script.write_text(python)
    s = start(**CREDENTIALS)
    session = shell.replace("http://127.0.0.1:9000", s.endpoint) + f"\n{sys.executable} {script}\n"
    assert s.endpoint in session and s.access in session and s.secret in session
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_"))}
    environ |= {"PATH": f"{pathlib.Path(sys.executable).parent}:{BINARY.parent}:{environ['PATH']}", "ORCAS_CONFIG": str(tmp_path / "config"), "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_EC2_METADATA_DISABLED": "true"}
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", session], cwd=work, env=environ, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello, orca" in done.stdout and "b'...'" in done.stdout and "'greetings/', 'locks/', 'thumbs/'" in done.stdout
    assert (work / "copy-of-my-bucket" / "greetings" / "hello.txt").read_text() == "hello, orca\n"
    assert (work / "copy-of-my-own-bucket" / "greetings" / "hello.txt").read_text() == "hello, orca\n"
    link = done.stdout.strip().splitlines()[-1]
    assert s.http("GET", link).data == b"..."


def test_every_setting_is_documented():
    """README.md lists exactly the variables in the help text of the binary, with the same defaults."""
    done = subprocess.run([str(BINARY), "server", "--help"], capture_output=True, text=True, timeout=HANG_SECONDS)
    help_text = dict(re.findall(r"^  (ORCAS_\w+)\n      .*\n      .*\(default: (.*)\)$", done.stdout, re.M))
    assert len(help_text) > 20, done.stdout
    shown = {}
    for names, default in re.findall(r"^\| (`ORCAS_[^|]*) \| ([^|]*) \|", (ROOT / "README.md").read_text(), re.M):
        for name in re.findall(r"ORCAS_\w+", names):
            shown[name] = default.replace("`", "")
    assert shown == help_text
