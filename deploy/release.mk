# The packages: `make release` builds them. Included by the Makefile.
.PHONY: platforms release release-cc release-test chart-test image

# The C compiler for the other architecture, as release.sh chooses it.
release-cc: cc
	@case "$$(go env GOHOSTARCH)" in \
	amd64) command -v aarch64-linux-gnu-gcc >/dev/null || { $(call install,a C compiler for arm64,--no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross); } ;; \
	arm64) command -v x86_64-linux-gnu-gcc >/dev/null || { $(call install,a C compiler for amd64,--no-install-recommends gcc-x86-64-linux-gnu libc6-dev-amd64-cross); } ;; \
	esac

platforms: ## build the client for Linux, macOS and Windows, amd64 and arm64, into bin/platforms, and type-check the server for macOS
	@rm -rf bin/platforms
	@deploy/package/clients.sh bin/platforms
	go test -count=1 -run '^(TestClientHasNoStore|TestServerFitsMacOS)$$' ./internal/layers

release: release-cc ## build static binaries, .deb and .rpm packages for amd64 and arm64, clients, and checksums in bin/release (VERSION=1.2.3)
	@VERSION=$(VERSION) deploy/package/release.sh bin/release

image: ## build the container image of bin/release (run make release first) with podman, buildah or docker: IMAGE=localhost/orcas:latest
	@deploy/container/build.sh $$(go env GOHOSTARCH) $(or $(IMAGE),localhost/orcas:latest)

HELM := helm.sh/helm/v3/cmd/helm@v3.19.2

# The chart's test is a module of its own, because the types of Kubernetes are not dependencies of ORCAS.
chart-test: ## check the Helm chart with helm lint, and decode its manifests into the types of Kubernetes
	@[ -x .tools/helm ] || { echo "building helm, once"; GOBIN=$(CURDIR)/.tools go install $(HELM); }
	cd deploy/test/chart && HELM=$(CURDIR)/.tools/helm go test -count=1 ./...

release-test: release-cc ## install, upgrade, remove and run what make release builds: packages, arm64, image, chart (as root on Debian)
	@deploy/test/release-test.sh
