#!/usr/bin/env bash
# Says by its status whether this machine lets the bench do all that it can: loop devices, mounts and FUSE. Where it does, a part that
# cannot run is a failure; elsewhere it is left out, and named at the end.
set -euo pipefail
[ "$(id -u)" = 0 ] && [ -c /dev/fuse ]
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/mount"
for fs in ext4 btrfs; do
	truncate -s 256M "$dir/$fs"
	"mkfs.$fs" -q "$dir/$fs"
	unshare -m mount -o loop "$dir/$fs" "$dir/mount" # it goes with the namespace
done
