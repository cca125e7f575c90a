"""Runs programs that people use with S3 against the built server, without special settings."""

import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import HANG_SECONDS, REGION, ROOT, pattern

HERE = ROOT / "e2e" / "programs"
INSTALLED = ROOT / ".programs"


class Programs:
    """Runs programs that find the server and its credentials in the environment."""

    def __init__(self, server, home):
        self.server, self.home = server, home
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_", "RCLONE_", "RESTIC_"))} | {
            "HOME": str(home), "ENDPOINT": server.endpoint, "HOST": server.endpoint.split("//")[1],
            "AWS_ACCESS_KEY_ID": server.access, "AWS_SECRET_ACCESS_KEY": server.secret, "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        if server.ca:
            self.env |= {name: server.ca for name in (
                "AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "RCLONE_CA_CERT", "RESTIC_CACERT")}

    def without_bundle(self):
        """Removes AWS_CA_BUNDLE, for programs with the older SDK for Go: it rejects that variable if the program sets its
        own HTTP transport."""
        self.env.pop("AWS_CA_BUNDLE", None)

    def run(self, *command, check=True, env=None, **more):
        """Runs a command and returns its standard output."""
        program = shutil.which(command[0]) or str(command[0])
        if not pathlib.Path(program).exists():
            pytest.skip(f"{command[0]} is not installed")
        more = {"cwd": self.home, "text": True} | more
        done = subprocess.run([program, *map(str, command[1:])], env=self.env | (env or {}), capture_output=True, timeout=HANG_SECONDS, **more)
        if check:
            assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, script, *arguments, venv="venv"):
        """Runs a script from e2e/programs in a virtual environment with the Python clients."""
        return self.run(INSTALLED / venv / "bin" / "python", HERE / script, *arguments)


@pytest.fixture
def programs(server, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Programs(server, home)


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """A typical directory tree: small, large and empty files, and names that need escaping."""
    root = tmp_path_factory.mktemp("tree") / "tree"
    for i in range(120):
        path = root / f"small/{i % 7}/file-{i:03}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pattern(i * 97, i))
    for name in ["with space.txt", "plus+sign&and=more", "ünïcödé-日本.txt", "percent%41.txt", "quote'and\"double", "semi;colon,comma", "deep/er/and/deeper/x"]:
        path = root / "names" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (root / "empty").write_bytes(b"")
    (root / "chunk").write_bytes(pattern(5 << 20, 5))
    (root / "large").write_bytes(pattern((23 << 20) + 17, 23))
    shutil.copytree(ROOT / "docs", root / "docs")
    return root


def files(root):
    """Returns the content of all files below root, by relative path."""
    root = pathlib.Path(root)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def same(one, other):
    """Compares two trees byte by byte."""
    one, other = files(one), files(other)
    assert sorted(one) == sorted(other)
    different = [name for name in one if one[name] != other[name]]
    assert not different, different
