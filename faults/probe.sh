#!/usr/bin/env bash
# Exits with status 0 if this machine can run all parts of the bench, which need loop devices, mounts and FUSE. On such a machine, a
# part that cannot run is a failure; elsewhere it is skipped, and listed at the end.
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
