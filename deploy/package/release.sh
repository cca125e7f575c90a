#!/usr/bin/env bash
# release.sh [DIR]: builds the binaries, clients, packages, software bills of materials and checksums of a release into
# DIR (bin/release). ARCHES chooses the architectures (amd64 arm64), SYSTEMS the systems of the clients (linux darwin
# windows), VERSION the version, and PACKAGES the packages (deb rpm).
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-bin/release}
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0

# The version of a tag, or the next version with the time of the commit, so that later commits have greater versions.
next=0.1.0
commit=$(git rev-parse HEAD 2>/dev/null || true)
date=$(TZ=UTC git log -1 --date='format-local:%Y-%m-%dT%H:%M:%SZ' --format=%cd 2>/dev/null || true)
if [ -z "${VERSION:-}" ]; then
	VERSION=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || true)
	stamp=${date//[-:TZ]/}
	VERSION=${VERSION:-$next-dev${stamp:+.$stamp}${commit:++${commit:0:12}}}
fi
export VERSION=${VERSION#v}
[ -z "$date" ] || SOURCE_DATE_EPOCH=$(date -u -d "$date" +%s)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}

stamps="-X orcas/internal/build.version=$VERSION -X orcas/internal/build.commit=$commit -X orcas/internal/build.date=$date"

build() { # build ARCH: a static binary with SQLite
	local arch=$1 cc=gcc host
	host=$(go env GOHOSTARCH)
	if [ "$arch" != "$host" ]; then
		case $arch in
		amd64) cc=x86_64-linux-gnu-gcc ;;
		arm64) cc=aarch64-linux-gnu-gcc ;;
		*) echo "release.sh: no C compiler is known for $arch" >&2 && exit 1 ;;
		esac
	fi
	echo "building orcas $VERSION for linux/$arch"
	CGO_ENABLED=1 CC=$cc GOOS=linux GOARCH=$arch go build -buildvcs=false -trimpath \
		-tags netgo,osusergo,sqlite_omit_load_extension \
		-ldflags "-s -w -linkmode external -extldflags -static $stamps" \
		-o "$out/orcas-linux-$arch" ./cmd/orcas
	if [[ $(readelf -l "$out/orcas-linux-$arch") == *INTERP* ]]; then
		echo "release.sh: $out/orcas-linux-$arch is not static" >&2
		exit 1
	fi
	[ -n "${NO_SBOM:-}" ] || go run "$cyclonedx" bin -json -noserial -version "$VERSION" \
		-output "$out/orcas-linux-$arch.cdx.json" "$out/orcas-linux-$arch"
}

rm -rf "$out"
mkdir -p "$out"
arches=${ARCHES:-amd64 arm64}
for arch in $arches; do build "$arch"; done
ARCHES=$arches deploy/package/clients.sh "$out" "$stamps"

# The pages and scripts come from the command line of the binary that runs here.
export GENERATED=$out/.generated
mkdir -p "$GENERATED/man"
runner=$out/orcas-linux-$(go env GOHOSTARCH)
"$runner" man "$GENERATED/man"
gzip -9 -n "$GENERATED"/man/*.1
for shell in bash zsh fish; do "$runner" completion $shell >"$GENERATED/orcas.$shell"; done

for arch in $arches; do
	for packager in ${PACKAGES:-deb rpm}; do
		ARCH=$arch BINARY=$out/orcas-linux-$arch go run "$nfpm" package --config deploy/package/nfpm.yaml --packager "$packager" --target "$out/"
	done
done
rm -rf "$GENERATED"
(cd "$out" && sha256sum -- * >SHA256SUMS)
echo "released into $out:"
ls -l "$out"
