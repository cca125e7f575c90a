"""The script that purges the Debian package, with other paths, in a mount namespace of its own."""

import pathlib
import re
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parent.parent / "deploy" / "package" / "deb-postrm.sh"


@pytest.mark.parametrize("parent", ["lib", "link"])
def test_purge_keeps_mounted_files(tmp_path, parent):
    """Files that are mounted in the data directory stay, also if its path contains a symbolic link."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("a mount namespace requires root")
    data, precious, script = tmp_path / parent / "orcas", tmp_path / "precious", tmp_path / "postrm"
    (tmp_path / "lib" / "orcas" / "mounted").mkdir(parents=True)
    (tmp_path / "link").symlink_to("lib")
    precious.mkdir()
    (precious / "file").write_text("precious")
    (data / "link").symlink_to(precious)
    begin, end = "\t# A mounted file system", "\trmdir --ignore-fail-on-non-empty /etc/orcas"
    part = re.search(re.escape(begin) + ".*?(?=" + re.escape(end) + ")", SCRIPT.read_text(), re.DOTALL)
    text = part[0].replace(" /var/log/orcas", "").replace("/var/lib/orcas", str(data))
    script.write_text("set -e\n" + text)
    mount = f"mount --bind {precious} {data}/mounted && sh {script}"
    subprocess.run(["unshare", "-m", "sh", "-c", mount], check=True, timeout=60)
    assert (precious / "file").read_text() == "precious" and data.exists()
    subprocess.run(["sh", script], check=True, timeout=60)
    assert (precious / "file").read_text() == "precious" and not data.exists()
