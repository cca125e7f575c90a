#!/usr/bin/env bash
# Runs a command with its temporary files in memory, so that its speed does not depend on the machine's drive. The tests
# stay the same: SIGKILL loses no file that was written, and power cuts use file systems of their own. Without root, or
# with less than 8 GiB of free memory, the command runs with its temporary files in the usual place.
set -euo pipefail
free=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
if [ "$(id -u)" != 0 ] || [ "$free" -lt $((8 << 20)) ] || ! unshare -m true 2>/dev/null; then
	exec "$@"
fi
dir=$(mktemp -d)
trap 'rmdir "$dir"' EXIT
unshare -m bash -c 'mount -t tmpfs -o size=6g tmpfs "$0" && export TMPDIR="$0"; "$@"' "$dir" "$@"
