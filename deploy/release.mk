# The packages: `make release` builds them. Included by the Makefile.
.PHONY: release release-cc image

# The C compiler for the other architecture, as release.sh chooses it.
release-cc: cc
	@case "$$(go env GOHOSTARCH)" in \
	amd64) command -v aarch64-linux-gnu-gcc >/dev/null || { $(call install,a C compiler for arm64,--no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross); } ;; \
	arm64) command -v x86_64-linux-gnu-gcc >/dev/null || { $(call install,a C compiler for amd64,--no-install-recommends gcc-x86-64-linux-gnu libc6-dev-amd64-cross); } ;; \
	esac

release: release-cc ## build static binaries, .deb and .rpm packages for amd64 and arm64, and checksums in bin/release (VERSION=1.2.3)
	@VERSION=$(VERSION) deploy/package/release.sh bin/release

image: ## build the container image of bin/release (run make release first) with podman, buildah or docker: IMAGE=localhost/orcas:latest
	@deploy/container/build.sh $$(go env GOHOSTARCH) $(or $(IMAGE),localhost/orcas:latest)
