"""Measures the transfer commands beside aws-cli and rclone, on the built server, and prints tables in Markdown.

    make sync-speed                      # everything: about 15 minutes, and 15 GiB in TMPDIR
    PYTHONPATH=e2e .venv/bin/python e2e/measure_sync.py small large many

small: 10,000 files of 4 KiB up and down, each program in turn, three turns; then a second run without changes.
large: one file of 5 GiB up and down, beside the load generator, which sends objects of 100 MiB over four connections.
many:  a million files compared with a million objects.

Client and server share the machine, so only ratios within one run count. All programs have their default settings,
except rclone's 64 transfers.
"""

import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from conftest import BINARY, ROOT, Server

TURNS = 3
FILES, SIZE = 10_000, 4096
LARGE = 5 << 30
MANY = int(os.environ.get("ORCAS_SYNC_MANY", 1_000_000))


class Bench:
    """A server with a bucket, and programs that reach it."""

    def __init__(self, directory):
        self.directory = directory
        self.server = Server(directory / "data")
        home = directory / "home"
        home.mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ORCAS_", "AWS_", "RCLONE_"))} | {
            "HOME": str(home), "AWS_ACCESS_KEY_ID": self.server.access, "AWS_SECRET_ACCESS_KEY": self.server.secret,
            "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.server.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true", "RCLONE_CONFIG_R_TYPE": "s3", "RCLONE_CONFIG_R_PROVIDER": "Other",
            "RCLONE_CONFIG_R_ENV_AUTH": "true", "RCLONE_CONFIG_R_REGION": "us-east-1", "RCLONE_CONFIG_R_ENDPOINT": self.server.endpoint,
        }
        self.s3 = self.server.client()
        self.s3.create_bucket(Bucket="bench")

    def time(self, *command):
        """Runs a command. Returns its wall time in seconds, its CPU time, its peak memory in MB, and its output."""
        began = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), env=self.env, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = process.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"{command}: {process.returncode}\n{output[-2000:]}"
        return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, output

    def close(self):
        self.server.stop()


def copies(tool, source, target):
    """Returns the command that copies a tree from or to the bucket: s3:PREFIX stands for a prefix."""
    aws = pathlib.Path(sys.executable).parent / "aws"
    place = {
        "orcas": lambda p: f"s3://bench/{p[3:]}" if p.startswith("s3:") else p,
        "aws": lambda p: f"s3://bench/{p[3:]}" if p.startswith("s3:") else p,
        "rclone": lambda p: f"R:bench/{p[3:]}" if p.startswith("s3:") else p,
    }[tool]
    start = {"orcas": [BINARY, "sync"], "aws": [aws, "s3", "sync", "--only-show-errors"],
             "rclone": [shutil.which("rclone"), "sync", "--transfers", "64"]}[tool]
    return [*start, place(str(source)), place(str(target))]


def small(bench):
    source = bench.directory / "small"
    for i in range(FILES):
        path = source / f"{i % 100:02}" / f"{i:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(SIZE))
    tools, times = ["orcas", "rclone", "aws"], {}
    for turn in range(TURNS):
        for tool in tools:
            prefix, target = f"s3:{tool}-{turn}", bench.directory / f"{tool}-{turn}"
            up = bench.time(*copies(tool, source, prefix))
            down = bench.time(*copies(tool, prefix, target))
            times.setdefault((tool, "up"), []).append(up)
            times.setdefault((tool, "down"), []).append(down)
            assert subprocess.run(["diff", "-r", source, target]).returncode == 0
            if tool == "orcas":
                again = bench.time(*copies(tool, source, prefix)), bench.time(*copies(tool, prefix, target))
                times.setdefault((tool, "up again"), []).append(again[0])
                times.setdefault((tool, "down again"), []).append(again[1])
            # Nothing is deleted meanwhile: ext4 takes long to create files just after many others were deleted.
        # Content that the server holds is not sent by orcas: each turn has new content.
        for path in source.rglob("*"):
            if path.is_file():
                path.write_bytes(os.urandom(SIZE))
    middle = {k: [statistics.median(column) for column in list(zip(*v))[:3]] for k, v in times.items()}
    print(f"\n{FILES:,} files of {SIZE} bytes, median of {TURNS} turns:\n")
    print("| program | direction | seconds | of orcas | CPU seconds | peak MB |\n| --- | --- | --- | --- | --- | --- |")
    for direction in ("up", "down", "up again", "down again"):
        for tool in tools:
            if (tool, direction) in middle:
                wall, cpu, memory = middle[tool, direction]
                print(f"| {tool} | {direction} | {wall:.2f} | {wall / middle['orcas', direction][0]:.1f} | {cpu:.2f} | {memory:.0f} |")


def large(bench):
    source, back = bench.directory / "large", bench.directory / "back"
    subprocess.run(f"head -c {LARGE} /dev/urandom > {source}", shell=True, check=True)
    rates = {"load generator": [], "orcas up": [], "orcas down": []}
    memory = {"orcas up": [], "orcas down": []}
    for turn in range(TURNS):
        result = bench.directory / "perf.json"
        bench.time(BINARY, "perf", "run", "--endpoint", bench.server.endpoint, "--access-key", bench.server.access, "--secret-key", bench.server.secret,
                   "--scenario", "put-sweep", "--duration", "15s", "--signing", "unsigned", "--json", result)
        rows = [r for s in json.loads(result.read_text())["scenarios"] for r in s["results"] if r["size_bytes"] == 100 << 20]
        rates["load generator"].append(rows[0]["bytes_per_sec"] / 1e6)
        for name, command in {"orcas up": [source, f"s3://bench/large-{turn}"], "orcas down": [f"s3://bench/large-{turn}", back]}.items():
            # Without instant upload, which would find the content of the turn before.
            wall, _, peak, _ = bench.time(BINARY, "cp", "--ref-level", "OFF", *command)
            rates[name].append(LARGE / wall / 1e6)
            memory[name].append(peak)
        assert subprocess.run(["cmp", source, back]).returncode == 0
        back.unlink()
        bench.s3.delete_object(Bucket="bench", Key=f"large-{turn}")
    print(f"\nOne file of {LARGE >> 30} GiB, median of {TURNS} turns:\n")
    print("| what | MB/s | of the load generator | peak MB |\n| --- | --- | --- | --- |")
    base = statistics.median(rates["load generator"])
    for name, values in rates.items():
        print(f"| {name} | {statistics.median(values):.0f} | {statistics.median(values) / base:.2f} | {max(memory.get(name, [0])) or '':.0f} |"
              if name in memory else f"| {name} | {base:.0f} | 1 | |")
    source.unlink()


def many(bench):
    source = bench.directory / "many"
    for i in range(MANY // 1000):
        directory = source / f"{i:04}"
        directory.mkdir(parents=True)
        for j in range(1000):
            (directory / f"{j:04}").write_bytes(b"%07d" % (i * 1000 + j))
    first = bench.time(*copies("orcas", source, "s3:many"))
    again = [bench.time(*copies("orcas", source, "s3:many")) for _ in range(TURNS)]
    wall, cpu, memory = (statistics.median(column) for column in list(zip(*again))[:3])
    print(f"\n{MANY:,} files: first run {first[0]:.0f} s, {first[2]:.0f} MB; compared without changes, median of {TURNS}: "
          f"{wall:.1f} s, {cpu:.1f} s of CPU, {memory:.0f} MB\n")


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="orcas-sync-"))
    version = subprocess.run([BINARY, "version"], capture_output=True, text=True).stdout.replace("\n", "; ")
    rclone = subprocess.run(["rclone", "version"], capture_output=True, text=True).stdout.split("\n")[0]
    aws = subprocess.run([pathlib.Path(sys.executable).parent / "aws", "--version"], capture_output=True, text=True).stdout.split()[0]
    print(f"{platform.platform()}, {os.cpu_count()} cores; {version}; {rclone}; {aws}; commit "
          + subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip(), flush=True)
    try:
        bench = Bench(directory)
        try:
            for part in sys.argv[1:] or ["small", "large", "many"]:
                {"small": small, "large": large, "many": many}[part](bench)
                sys.stdout.flush()
        finally:
            bench.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
