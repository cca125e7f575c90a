# Targets for people and CI; `make` without a target lists them. They need Linux, Go, make, a C compiler and, for e2e,
# Python 3. As root on Debian, a target installs a missing program and says so first; elsewhere it names the package.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run build orcas-report test test-all check prose race bench fuzz report corpus compressed profile perf-growth perf-growth-10m e2e s3test s3test-list s3test-mutants policy-mutants dashboards alerts-test clean cc strace chromium prometheus vendor-console console-pictures console-long sync-speed tree-long

export CGO_ENABLED := 1

# VECTOR_AES=1 with any target builds encryption with vector AES (docs/encryption.md), which needs Intel's library.
WITH_VECTOR_AES := $(filter-out 0 no false,$(VECTOR_AES))
ifneq ($(WITH_VECTOR_AES),)
export GOFLAGS := $(GOFLAGS) -tags=ipsecmb
endif

# $(call install,PROGRAM,PACKAGES): install a missing program, or name its packages.
install = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "$(1) is missing: installing $(2) with apt-get" >&2; \
		apt-get update -qq && apt-get install -y -qq $(2); \
	else \
		echo "$(1) is missing: install it (Debian: apt-get install $(2))" >&2; exit 1; \
	fi

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 20s
BENCHTIME   ?= 1s
DATA        ?= data
PROFILE     ?= baseline
PERFDIR     ?= .
PACKAGES    ?= ./...
BENCHPACKAGES := ./s3/... ./vfs/... ./content/... ./batch/... ./core/...

# `orcas version` prints the commit only if git works here (in a container, git may not trust the owner of the files).
BUILDVCS := $(shell git status >/dev/null 2>&1 || echo -buildvcs=false)

include faults/faults.mk
include deploy/release.mk

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build the server and start it, with data in ./data
	@exec bin/orcas server --data "$(DATA)"

build: cc ## build bin/orcas
	@[ -e bin/orcas ] || echo "building bin/orcas: the first build takes a minute or two, most of it spent compiling SQLite"
	go build $(BUILDVCS) -trimpath -ldflags '-s -w' -o bin/orcas ./cmd/orcas

orcas-report: cc ## build bin/orcas-report, which `orcas perf report` needs
	go build $(BUILDVCS) -trimpath -ldflags '-s -w' -o bin/orcas-report ./cmd/orcas-report

test: cc ## run the Go tests with the smaller counts of -short (about 3 minutes on two cores)
	go test -short -timeout 15m $(PACKAGES)

test-all: cc ## run every Go test with full counts (about 8 minutes)
	go test -timeout 15m $(PACKAGES)

check: cc ## check formatting, vet, staticcheck, package layers, prose, and that mutants fit the code
	@unformatted=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go test ./internal/layers ./internal/prose
	go test -run '^TestMutantsFit$$' ./auth/policy ./s3/s3test

prose: ## find phrases that are not plain English, and long lines in documents
	go test -count=1 ./internal/prose

race: cc ## run every Go test under the race detector, with the smaller counts of -short
	go test -race -short -timeout 30m $(PACKAGES)

bench: cc ## run every Go benchmark, with allocations (BENCHTIME=1s)
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout 60m $(PACKAGES)

console-long: build .venv/ready chromium ## test the console with an upload of 5 GiB and a bucket of a million keys (10 minutes)
	ORCAS_CONSOLE_LONG=1 ORCAS_CONSOLE_PATIENCE=1800 .venv/bin/python -m pytest -q -s e2e/test_console_long.py

tree-long: build ## compare a million files with as many objects, and time 10,000 files beside rclone and the AWS command line (15 minutes)
	ORCAS_BINARY=$(CURDIR)/bin/orcas go test -tags long -count 1 -v -timeout 60m -run '^(TestMillion|TestBesideOthers)$$' ./sdk/tree

sync-speed: build .venv/ready .programs/ready ## measure orcas sync and cp beside aws-cli and rclone (15 minutes, 15 GiB in TMPDIR)
	PYTHONPATH=e2e .venv/bin/python e2e/measure_sync.py

console-pictures: build .venv/ready chromium ## make the pictures of the console in docs/images
	rm -rf bin/pictures
	PYTHONPATH=e2e .venv/bin/python e2e/console_pictures.py bin/pictures
	rm -rf bin/pictures

vendor-console: ## fetch the JavaScript libraries of the console, as console/web/vendor/vendor.json lists them
	python3 console/vendor.py

fuzz: cc ## fuzz every parser of untrusted input, for FUZZTIME=20s each
	@for pkg in $$(go list $(PACKAGES)); do \
		for name in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$name"; \
			go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

# The time that a report takes on two cores. PEERS are flags for other servers to compare with ORCAS, for example
# PEERS='--minio /usr/local/bin/minio --versitygw /usr/local/bin/versitygw --weed /usr/local/bin/weed'.
TIME_smoke      := about 3 minutes
TIME_baseline   := about 25 minutes
TIME_saturation := some hours
PEERS           ?=

report: build orcas-report ## measure everything (25 minutes; PROFILE=smoke: 3) and write PERFORMANCE_TEST_REPORT.md; PEERS adds other servers
	@echo "measuring takes $(or $(TIME_$(PROFILE)),$(error PROFILE=$(PROFILE) is not smoke, baseline or saturation)) with PROFILE=$(PROFILE); run nothing else on this machine in the meantime"
	mkdir -p docs/perf
	go test -run '^$$' -bench . -benchmem -benchtime 100ms -timeout 30m $(BENCHPACKAGES) | sed -e 's|$(CURDIR)/||g' -e "s|$${TMPDIR:-/tmp}/[^ ]*|(a temporary file)|g" | tee docs/perf/bench.txt
	bin/orcas perf run --profile $(PROFILE) --dir "$(PERFDIR)" $(PEERS) --commit "$$(git rev-parse --short HEAD 2>/dev/null || true)" --json docs/perf/baseline.json
	bin/orcas perf report docs/perf/baseline.json --bench docs/perf/bench.txt --out docs/perf --head perf/report/head.md --markdown PERFORMANCE_TEST_REPORT.md
	ORCAS_README=1 go test -count=1 -run TestReadmeHasTheFigures ./cmd/orcas-report

corpus: cc ## measure how well a public text compresses (downloads the text with npm)
	@mkdir -p .tools && { [ -s .tools/corpus.txt ] || bash perf/corpus.sh .tools/corpus.txt; }
	ORCAS_CORPUS=$(CURDIR)/.tools/corpus.txt go test -count 1 -v -run 'TestRecordsShrink|TestTextShrinks' ./perf

compressed: cc ## run the tests that store content with compression on
	ORCAS_TEST_COMPRESSION=better go test -timeout 15m ./vfs ./content ./reclaim ./fsck ./scrub ./s3

profile: cc ## profile the server's CPU time for PUT and GET of 4 KiB
	@bash perf/profile.sh

# $(call growth,KEYS,PROFILE): grow a store in each order of keys, and write a JSON file and a report of each to GROWTHDIR.
GROWTHDIR ?= bin/growth
growth = mkdir -p "$(GROWTHDIR)"; status=0; for order in sequential random interleaved; do \
		file="$(GROWTHDIR)/$(1)-$$order"; rm -f "$$file.json"; \
		bin/orcas perf run --scenario growth --keys $(1) --order $$order --profile $(2) --dir "$(PERFDIR)" \
			--commit "$$(git rev-parse --short HEAD 2>/dev/null || true)" --json "$$file.json" || status=1; \
		bin/orcas perf report "$$file.json" --out "$$file" || status=1; \
	done; exit $$status

perf-growth: build orcas-report ## grow a store to 1 million objects in each order of keys: rates, pauses, memory, disk usage
	@$(call growth,1000000,baseline)

perf-growth-10m: build orcas-report ## the same with 10 million objects, and longer loads
	@$(call growth,10000000,saturation)

e2e: build .venv/ready .programs/ready strace chromium prometheus ## test the built server with aws-cli, boto3, rclone, restic, Chromium and a dozen other programs
	.venv/bin/python -m pytest -q -ra --durations=10 e2e

s3test: cc ## test a server against the rules of S3 (ORCAS_S3TEST_ENDPOINT: test another server)
	go test -count=1 -timeout 10m ./s3/s3test

s3test-list: cc ## print every rule of S3 that s3test checks
	@cd s3/s3test && go test -count=1 -args -rules

s3test-mutants: cc ## break the rules that s3test checks, one by one; s3test must detect each (5 minutes)
	ORCAS_S3TEST_MUTANTS=1 go test -count=1 -v -timeout 60m -run '^TestMutants$$' ./s3/s3test

policy-mutants: cc ## break the rules of policies, and 60 places drawn at random, one by one; the tests of auth/policy must detect each (10 minutes)
	ORCAS_POLICY_MUTANTS=1 go test -count=1 -v -timeout 60m -run '^(TestMutants|TestDrawnMutants)$$' ./auth/policy

dashboards: ## write the Grafana dashboards in deploy/grafana, which internal/monitoring defines
	ORCAS_DASHBOARDS=1 go test -count=1 -run TestDashboardFiles ./internal/monitoring

alerts-test: prometheus ## check the alert rules, and test when they fire
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts_test.yaml

clean: ## remove everything that the other targets created, except ./data
	rm -rf bin .venv .programs

# SQLite is written in C.
cc:
	@command -v gcc >/dev/null || command -v cc >/dev/null || { $(call install,a C compiler,gcc libc6-dev); }
	@[ -z "$(WITH_VECTOR_AES)" ] || echo 'int main(void) { return 0; }' | \
		$${CC:-gcc} -include intel-ipsec-mb.h -x c - -o /dev/null -l:libIPSec_MB.a 2>/dev/null || \
		{ $(call install,Intel's library for VECTOR_AES=1,libipsec-mb-dev); }

# The suite counts the server's sync system calls.
strace:
	@command -v strace >/dev/null || { $(call install,strace,strace); }

# The browser in which the suite loads pages. Without it the suite does not run.
chromium:
	@command -v chromium >/dev/null || { $(call install,Chromium,--no-install-recommends chromium); }

# Debian's package starts a service, which is not needed here.
prometheus:
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || { \
		$(call install,Prometheus,--no-install-recommends prometheus); \
		! command -v systemctl >/dev/null || systemctl disable --now prometheus >/dev/null 2>&1 || true; }

# The programs that the suite drives, as far as they can be installed.
.programs/ready: e2e/programs/install.sh e2e/programs/requirements.txt e2e/programs/package.json .venv/ready
	@bash e2e/programs/install.sh

.venv/ready: e2e/requirements.txt
	@python3 -c 'import ensurepip' 2>/dev/null || { $(call install,Python 3 with venv,python3 python3-venv); }
	python3 -m venv --clear .venv
	.venv/bin/python -m pip install -q --disable-pip-version-check -r e2e/requirements.txt
	@touch $@
