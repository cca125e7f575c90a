#!/usr/bin/env bash
# release-test.sh: tests the packages, the image and the chart of `make release`. It needs root, and Debian with network
# access. What this machine cannot run is reported as NOT TESTED. That is a failure for the parts that
# RELEASE_TEST_REQUIRED names: debian (everything), history (of the repository), tree (with debootstrap), image.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/release-test.XXXXXX")
cache=$PWD/.tools
mkdir -p "$cache"
trap 'rm -rf --one-file-system "$work" || true' EXIT
step() { echo "=== $* (${SECONDS} s)"; }
. deploy/test/common.sh
install() { # install PROGRAM PACKAGES...
	command -v "$1" >/dev/null && return
	echo "$1 is missing: installing ${*:2} with apt-get" >&2
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${@:2}" >/dev/null
}
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || untested debian "the packages, because this needs root on Debian"
install qemu-aarch64-static qemu-user-static
install debootstrap debootstrap
install systemd-nspawn systemd-container
install rpm rpm
install rpm2cpio rpm2cpio
install cpio cpio
install podman podman buildah
install runc runc
install curl curl
install mandoc mandoc

step "release 0.2.0 of this tree"
new=$work/new
VERSION=0.2.0 deploy/package/release.sh "$new" >"$work/log" 2>&1 || { cat "$work/log"; fail "the release"; }
(cd "$new" && sha256sum --check --quiet SHA256SUMS)
for arch in amd64 arm64; do
	[ "$(grep -o '"bomFormat": *"CycloneDX"' "$new/orcas-linux-$arch.cdx.json" | wc -l)" = 1 ] || fail "the bill of materials for $arch"
	grep -q mattn/go-sqlite3 "$new/orcas-linux-$arch.cdx.json" || fail "the bill of materials for $arch does not name SQLite"
done

step "clients"
for file in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64.exe windows-arm64.exe; do
	[ -s "$new/orcas-client-$file" ] || fail "there is no client $file"
done
grep -q '^orcas 0.2.0$' <<<"$("$new/orcas-client-linux-amd64" version)" || fail "the version of the client"

step "systemd unit"
systemd-analyze security --offline=true --threshold=20 deploy/package/orcas.service >"$work/log" || { tail -1 "$work/log"; fail "the exposure is above 2.0"; }
tail -1 "$work/log"

step "man pages"
mkdir "$work/man"
"$new/orcas-linux-amd64" man "$work/man"
mandoc -T lint -W warning "$work"/man/*.1

step "the arm64 binary under qemu-user"
arm=(qemu-aarch64-static "$new/orcas-linux-arm64")
grep -q '^orcas 0.2.0$' <<<"$("${arm[@]}" version)" || fail "orcas version for arm64"
ports=$(python3 -c 'import socket; s = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]; print(*(x.getsockname()[1] for x in s))')
read -r s3_port admin_port <<<"$ports"
export ORCAS_ROOT_ACCESS_KEY=access-key ORCAS_ROOT_SECRET_KEY=secret-key-of-the-test
"${arm[@]}" server --data "$work/arm" --address "127.0.0.1:$s3_port" --admin-address "127.0.0.1:$admin_port" >"$work/arm.log" 2>&1 &
pid=$!
ready "$s3_port"
roundtrip "$s3_port" access-key:secret-key-of-the-test
kill "$pid"
wait "$pid" || fail "the arm64 server: $(tail -3 "$work/arm.log")"

step "rpm packages"
for arch in x86_64 aarch64; do
	rpm=$(echo "$new"/*."$arch".rpm)
	files=$(rpm -qpl --nosignature "$rpm")
	for file in /usr/bin/orcas /usr/lib/systemd/system/orcas.service /etc/orcas/orcas.env /usr/share/man/man1/orcas.1.gz; do
		grep -qx "$file" <<<"$files" || fail "$rpm has no $file"
	done
	[ "$(rpm -qpc --nosignature "$rpm")" = /etc/orcas/orcas.env ] || fail "$rpm does not keep changed settings"
	grep -q useradd <<<"$(rpm -qp --nosignature --scripts "$rpm")" || fail "$rpm does not create the user"
done
mkdir "$work/rpm"
# The names in the archive are absolute. The status of rpm2cpio is 1 even after complete output.
(cd "$work/rpm" && set +o pipefail && rpm2cpio "$new"/*.x86_64.rpm | cpio -idm --quiet --no-absolute-filenames 2>/dev/null && cmp usr/bin/orcas "$new/orcas-linux-amd64")

step "deb package in a clean Debian tree"
bash deploy/test/deb-in-tree.sh "$new" "$work" "$cache"

step "image"
bash deploy/test/image.sh "$new" "$work"

step "chart"
make -s chart-test

step "passed"
