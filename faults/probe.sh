#!/usr/bin/env bash
# Exits with status 0 if this machine can run all parts of the bench, which need loop devices, mounts, FUSE and control groups that
# limit memory. On such a machine, a part that cannot run is a failure; elsewhere it is skipped, and listed at the end.
set -euo pipefail
[ "$(id -u)" = 0 ] && [ -c /dev/fuse ]
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/mount"
for fs in ext4 btrfs; do
	truncate -s 256M "$dir/$fs"
	"mkfs.$fs" -q "$dir/$fs"
	unshare -m mount -o loop "$dir/$fs" "$dir/mount" # the mount disappears with the namespace
done
limited() { # creates a control group below $1, as TestMemory does, and sets the file $2
	local group="$1/orcas-probe-$$" status=0
	mkdir "$group"
	echo 256M >"$group/$2" || status=1
	rmdir "$group"
	return $status
}
own=$(awk -F: '$2 == "memory" { print $3 }' /proc/self/cgroup)
limited "/sys/fs/cgroup/memory$own" memory.limit_in_bytes || limited /sys/fs/cgroup memory.max
