#!/usr/bin/env bash
# deb-in-tree.sh RELEASE WORK CACHE: builds the package of an older commit, and runs deb.sh in a clean Debian tree.
set -euo pipefail
. deploy/test/common.sh
new=$1 work=$2 cache=$3

# The commit from which on packages are tested, or the newest tag.
commit=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null ||
	git log --diff-filter=A --format=%H -- deploy/test/deb.sh | tail -1)
if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" != false ] || [ -z "$commit" ]; then
	untested history "the packages in a clean Debian tree, because the history of the repository is incomplete"
fi
mkdir "$work/source" "$work/pkg"
git archive "$commit" | tar -x -C "$work/source"
echo "building 0.1.0 of commit ${commit:0:12}"
VERSION=0.1.0 SYSTEMS=linux ARCHES=$(go env GOHOSTARCH) PACKAGES=deb NO_SBOM=1 "$work/source/deploy/package/release.sh" "$work/old" >"$work/log" 2>&1 ||
	{ cat "$work/log"; fail "the release of $commit"; }
cp "$work"/old/*.deb "$work/pkg/old.deb"
cp "$new"/orcas_*_"$(go env GOHOSTARCH)".deb "$work/pkg/new.deb"
cp deploy/test/deb.sh "$work/pkg/"

suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
if ! [ -s "$cache/debian-$suite.tar" ]; then
	echo "creating a Debian tree with debootstrap, once"
	debootstrap --variant=minbase --include=systemd,systemd-sysv,init-system-helpers,passwd,curl "$suite" "$work/tree" >"$work/log" 2>&1 ||
		untested tree "the packages in a clean Debian tree, because debootstrap failed: $(tail -1 "$work/log")"
	tar -C "$work/tree" --exclude=./var/cache/apt/archives/*.deb -cf "$cache/debian-$suite.tar.new" .
	mv "$cache/debian-$suite.tar.new" "$cache/debian-$suite.tar"
	rm -rf --one-file-system "$work/tree"
fi
mkdir -p "$work/tree"
tar -C "$work/tree" -xf "$cache/debian-$suite.tar"
cat >"$work/tree/etc/systemd/system/package-test.service" <<'UNIT'
[Unit]
Description=Test of the package
[Service]
Type=oneshot
ExecStart=/bin/bash -c '/root/pkg/deb.sh /root/pkg/old.deb /root/pkg/new.deb >/root/pkg/log 2>&1; echo $? >/root/pkg/status; systemctl poweroff'
UNIT
mkdir -p "$work/tree/etc/systemd/system/multi-user.target.wants"
ln -s ../package-test.service "$work/tree/etc/systemd/system/multi-user.target.wants/"
# The tree has a loopback of its own, so the default ports are free.
timeout 600 systemd-nspawn -q -D "$work/tree" --bind "$work/pkg:/root/pkg" --register=no --keep-unit --private-network -b \
	</dev/null >"$work/log" 2>&1 || true
[ -e "$work/pkg/log" ] ||
	untested tree "the packages in a clean Debian tree, because systemd-nspawn cannot start it: $(tail -1 "$work/log")"
if [ "$(cat "$work/pkg/status" 2>/dev/null)" != 0 ]; then
	cat "$work/pkg/log"
	fail "the package in a clean Debian tree"
fi
grep '^---' "$work/pkg/log"
