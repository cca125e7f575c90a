#!/usr/bin/env bash
# build.sh ARCH [TAG...]: builds the image from bin/release/orcas-linux-ARCH with podman or buildah, or BUILDER.
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=$1
shift
release=${RELEASE:-bin/release}
builder=${BUILDER:-$(command -v podman || command -v buildah || command -v docker)} || {
	echo "build.sh: neither podman, buildah nor docker is installed" >&2
	exit 1
}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir -p "$context/root/data" "$context/root/etc/ssl/certs"
chmod 1777 "$context/root/data"
cp "$release/orcas-linux-$arch" "$context/"
# The webhook of the audit log may be an HTTPS server.
cp /etc/ssl/certs/ca-certificates.crt "$context/root/etc/ssl/certs/" 2>/dev/null ||
	echo "build.sh: without /etc/ssl/certs/ca-certificates.crt (package ca-certificates), the image cannot verify public servers" >&2
flags=()
for tag in "${@:-localhost/orcas:latest}"; do flags+=(--tag "$tag"); done
case $builder in
*docker) ;;
*) flags+=(--format docker) ;; # only this format has a health check
esac
$builder build --platform "linux/$arch" --build-arg "BINARY=orcas-linux-$arch" "${flags[@]}" \
	--file deploy/container/Containerfile "$context"
