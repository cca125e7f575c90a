#!/usr/bin/env bash
# clients.sh DIR [LDFLAG...]: builds orcas with the client commands only, into DIR/orcas-client-OS-ARCH, for each system
# and architecture. It needs no C compiler. SYSTEMS and ARCHES choose fewer of them.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
for system in ${SYSTEMS:-linux darwin windows}; do
	for arch in ${ARCHES:-amd64 arm64}; do
		file=$out/orcas-client-$system-$arch
		[ "$system" != windows ] || file=$file.exe
		echo "building $file"
		CGO_ENABLED=0 GOOS=$system GOARCH=$arch go build -buildvcs=false -trimpath -ldflags "-s -w ${*:2}" -o "$file" ./cmd/orcas
	done
done
