#!/usr/bin/env python3
"""Fetches the JavaScript libraries of the console with npm, as web/vendor/vendor.json lists them, and verifies them.

Each row has the package, its version, a file in it, the name of the file here, and the SHA-256 of the original. Imports
by package name become relative, because browsers resolve those without an import map, which the policy of the page
would not allow. Comments with the names of source maps are removed. To update a library, change its version and run
this with --accept, which writes the new sums; then read the differences.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

VENDOR = pathlib.Path(__file__).resolve().parent / "web" / "vendor"
IMPORTS = {"preact": "./preact.mjs"}


def fetch(package, version, directory):
    done = subprocess.run(
        ["npm", "pack", "--silent", f"{package}@{version}"], cwd=directory, check=True, capture_output=True, text=True)
    return pathlib.Path(directory) / done.stdout.split()[-1]


def adapt(text):
    for name, path in IMPORTS.items():
        text = re.sub(rf'from\s*"{name}"', f'from"{path}"', text)
    return re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "\n", text)


def main():
    accept = "--accept" in sys.argv
    table = VENDOR / "vendor.json"
    rows = json.loads(table.read_text())
    archives = {}
    with tempfile.TemporaryDirectory() as directory:
        for row in rows:
            which = row["package"], row["version"]
            if which not in archives:
                archives[which] = fetch(*which, directory)
            with tarfile.open(archives[which]) as archive:
                original = archive.extractfile("package/" + row["source"]).read()
            found = hashlib.sha256(original).hexdigest()
            if accept:
                row["sha256"] = found
            elif found != row["sha256"]:
                sys.exit(f"{row['package']} {row['version']}: {row['source']} has SHA-256 {found}, not {row['sha256']}")
            (VENDOR / row["file"]).write_text(adapt(original.decode()))
            print(f"{row['file']}: {row['package']} {row['version']}")
    if accept:
        table.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
