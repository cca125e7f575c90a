# What a person or CI does with ORCAS. `make` alone prints the list. Go, make and Python 3 have to be there; whatever else a
# target needs, it gets by itself.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run build test check race bench fuzz report corpus compressed profile e2e s3test s3test-list s3test-mutants clean cc strace

export CGO_ENABLED := 1

# Vector AES, where it is to be had; cc finds that out.
GIVEN_GOFLAGS := $(GOFLAGS)
export GOFLAGS = $(GIVEN_GOFLAGS) $(file < .tools/goflags)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 20s
BENCHTIME   ?= 1s
DATA        ?= data
PROFILE     ?= baseline
PERFDIR     ?= .
PACKAGES    ?= ./...
BENCHPACKAGES := ./s3/... ./vfs/... ./batch/... ./core/...

# The commit in `orcas version`, where git will tell it (in a container it may not trust the owner of the files).
BUILDVCS := $(shell git status >/dev/null 2>&1 || echo -buildvcs=false)

include faults/faults.mk

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build the server and start it with its data in ./data
	@exec bin/orcas server --data "$(DATA)"

build: cc ## build bin/orcas
	go build $(BUILDVCS) -trimpath -ldflags '-s -w' -o bin/orcas ./cmd/orcas

test: cc ## run every Go test
	go test -timeout 15m $(PACKAGES)

check: cc ## check format, vet, staticcheck and the floors of the packages
	@unformatted=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	GOFLAGS='$(GIVEN_GOFLAGS)' go vet ./internal/aesgcm # without vector AES
	go run $(STATICCHECK) ./...
	go test ./internal/layers

race: cc ## run every Go test under the race detector, at the smaller counts of -short
	go test -race -short -timeout 30m $(PACKAGES)

bench: cc ## run every Go benchmark, with allocations (BENCHTIME=1s)
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout 60m $(PACKAGES)

fuzz: cc ## fuzz every parser of outside bytes for FUZZTIME=20s each
	@for pkg in $$(go list $(PACKAGES)); do \
		for name in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$name"; \
			go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

# How long a report takes on two cores.
TIME_smoke      := about 3 minutes
TIME_baseline   := about 35 minutes
TIME_saturation := some hours

report: build ## measure everything (35 minutes; PROFILE=smoke: 3) and write PERFORMANCE_TEST_REPORT.md
	@echo "measuring: $(or $(TIME_$(PROFILE)),$(error PROFILE=$(PROFILE) is not smoke, baseline or saturation)) with PROFILE=$(PROFILE), and nothing else should run meanwhile"
	mkdir -p docs/perf
	go test -run '^$$' -bench . -benchmem -benchtime 200ms -timeout 30m $(BENCHPACKAGES) | sed -e 's|$(CURDIR)/||g' -e "s|$${TMPDIR:-/tmp}/[^ ]*|(a temporary file)|g" | tee docs/perf/bench.txt
	bin/orcas perf run --profile $(PROFILE) --dir "$(PERFDIR)" --commit "$$(git rev-parse --short HEAD 2>/dev/null || true)" --json docs/perf/baseline.json
	bin/orcas perf report docs/perf/baseline.json --bench docs/perf/bench.txt --out docs/perf --head perf/report/head.md --markdown PERFORMANCE_TEST_REPORT.md

corpus: cc ## how much smaller compression makes a public text (gets it with npm)
	@mkdir -p .tools && { [ -s .tools/corpus.txt ] || bash perf/corpus.sh .tools/corpus.txt; }
	ORCAS_CORPUS=$(CURDIR)/.tools/corpus.txt go test -count 1 -v -run 'TestRecordsShrink|TestTextShrinks' ./perf

compressed: cc ## run the tests that store content with compression on
	ORCAS_TEST_COMPRESSION=better go test -timeout 15m ./vfs ./s3

profile: cc ## where the server's CPU time goes in a PUT and a GET of 4 KiB
	@bash perf/profile.sh

e2e: build .venv/ready .programs/ready strace ## drive the built server with aws-cli, boto3, rclone, restic and a dozen other programs
	.venv/bin/python -m pytest -q -ra --durations=10 e2e

s3test: cc ## hold a server against the rules of S3 one by one (ORCAS_S3TEST_ENDPOINT: another one than ours)
	go test -count=1 -timeout 10m ./s3/s3test

s3test-list: cc ## print every rule of S3 that s3test knows
	@cd s3/s3test && go test -count=1 -args -rules

s3test-mutants: cc ## break the rules that s3test claims, one by one: it has to notice each (5 minutes)
	ORCAS_S3TEST_MUTANTS=1 go test -count=1 -v -timeout 60m -run '^TestMutants$$' ./s3/s3test

clean: ## remove what the other targets made, but not ./data
	rm -rf bin .venv .programs

# SQLite is C, and so is what brings vector AES.
cc:
	@if ! command -v gcc >/dev/null && ! command -v cc >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -y -qq gcc libc6-dev; \
		else \
			echo "a C compiler is needed to build SQLite: install gcc (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; \
		fi; \
	fi
	@mkdir -p .tools && bash internal/aesgcm/library.sh .tools/vector-aes-tried >.tools/goflags

# The suite counts the server's syncing system calls.
strace:
	@command -v strace >/dev/null || { apt-get update -qq && apt-get install -y -qq strace; }

# The programs that the suite drives, where they can be had.
.programs/ready: e2e/programs/install.sh e2e/programs/requirements.txt e2e/programs/package.json .venv/ready
	@bash e2e/programs/install.sh

.venv/ready: e2e/requirements.txt
	@if ! python3 -c 'import ensurepip' 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -y -qq python3 python3-venv; \
		else \
			echo "Python 3 with venv is needed (Debian: apt-get install python3 python3-venv)" >&2; exit 1; \
		fi; \
	fi
	python3 -m venv --clear .venv
	.venv/bin/python -m pip install -q --disable-pip-version-check -r e2e/requirements.txt
	@touch $@
