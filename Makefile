# ringlet: build, install, test. `make` alone lists what there is.
#
# Settings, on the command line or in the environment:
#   PLUGIN       name of the plugin in the engine, with its tag; also the registry's name for make push
#   ARCH         architecture to build for, amd64 or arm64; one that is not this machine's goes to build/ARCH
#   OUT          folder for what is built, build
#   DOCKER_HOST  the engine, as for the docker command
#   FUZZTIME     how long make fuzz gives each target
#   SOAK         how long make soak runs
#   ENGINE       folder of the engine that make e2e tests with; default: the one installed
#   OLD          commit from which make e2e upgrades the plugin; default: none
#   BENCH        arguments of make bench; -help lists them
#   REPLACE=yes  lets make plugin, install and run remove an installed plugin of another build, with its data

MAKEFLAGS += --warn-undefined-variables --no-print-directory
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -euc
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

PLUGIN ?= ringlet:latest
FUZZTIME ?= 20s
SOAK ?= 1h
OLD ?=
BENCH ?=
ENGINE ?=
REPLACE ?= no
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO ?= go
ARCHS := amd64 arm64
HOST_ARCH := $(shell $(GO) env GOHOSTARCH)
ARCH ?= $(HOST_ARCH)
OUT ?= build
BUILD := $(if $(filter $(HOST_ARCH),$(ARCH)),$(OUT),$(OUT)/$(ARCH))
export PLUGIN REPLACE FUZZTIME BUILD ENGINE

# What a builder has set for Go elsewhere is not to change the program: make repro. None of these is empty where Go would
# then take what `go env -w` has set.
COMPILE := umask 022 && CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) GOAMD64=v1 GOARM64=v8.0 GOFIPS140=off GOEXPERIMENT= GODEBUG= GOWORK=off \
	GOFLAGS=-buildvcs=false $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'

##@ Try it

.PHONY: run
run: build/plugin build/demo.tar ## Install the plugin, start two containers that reach each other, show what happened
	@scripts/run.sh

.PHONY: uninstall
uninstall: ## Remove what run and install made: containers, network, image, plugin and its data
	@scripts/plugin.sh uninstall

##@ Build and install

.PHONY: build
build: ## Build build/ringlet, the one static binary
	@$(COMPILE) -o $(BUILD)/ringlet ./plugin

.PHONY: man
man: ## Build build/man, a manual page for each command
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) $(GO) run ./plugin/man build/man $(VERSION)

# The plugin as `docker plugin create` takes it. Its description carries the build, so that an installed plugin can be
# compared with this one.
.PHONY: build/plugin
build/plugin: build ## Build build/plugin, the directory of the managed plugin
	@scripts/plugin.sh directory $(VERSION)

.PHONY: sbom
sbom: build/plugin ## Write build/ringlet.cdx.json, what the binary is made of (CycloneDX), and build/SHA256SUMS with it
	@scripts/plugin.sh bom $(VERSION)

.PHONY: plugin
plugin: build/plugin ## Create the plugin in the engine, not enabled
	@scripts/plugin.sh create

.PHONY: install
install: build/plugin ## Create the plugin in the engine and enable it
	@scripts/plugin.sh install

# A tag of a plugin is of one architecture. TAG itself is the one of this machine; a tag that names one is that one alone.
TAG := $(PLUGIN)$(if $(findstring :,$(notdir $(PLUGIN))),,:latest)
NAMED := $(filter $(ARCHS),$(lastword $(subst -, ,$(TAG))))

.PHONY: push push-one
push: ## Push to a registry: make push PLUGIN=host/ringlet:1.0, for amd64 and arm64, as 1.0-amd64 and 1.0-arm64
ifneq ($(NAMED),)
	@$(MAKE) push-one PLUGIN=$(TAG) ARCH=$(NAMED)
else
	@for arch in $(ARCHS); do $(MAKE) push-one PLUGIN=$(TAG)-$$arch ARCH=$$arch; done
	@$(MAKE) push-one PLUGIN=$(TAG) ARCH=$(HOST_ARCH)
endif

push-one: build/plugin
	@scripts/plugin.sh push

.PHONY: build/demo.tar
build/demo.tar: # The demo image: one static binary.
	@$(COMPILE) -o $(BUILD)/demo ./internal/demo
	@tar --sort=name --owner=0 --group=0 --mtime=@0 -C $(BUILD) -cf $(BUILD)/demo.tar demo

.PHONY: clean
clean: ## Remove build/
	@rm -rf build

##@ Test

.PHONY: test
test: build/plugin build/demo.tar ## Every test; the last line says what was skipped
	@scripts/test.sh vet lint unit race bench peers repro sbom e2e

.PHONY: unit
unit: ## The tests that need neither root nor an engine
	@scripts/test.sh unit

.PHONY: race
race: ## The packages with goroutines under the race detector
	@scripts/test.sh race

.PHONY: e2e
e2e: build/plugin build/demo.tar ## The tests with real engines of their own (root): ENGINE=DIR takes dockerd from there, OLD=COMMIT upgrades from that commit
	@if [ -n "$(OLD)" ]; then scripts/old.sh build/old "$(OLD)"; fi
	@RINGLET_E2E_ENGINE=$${ENGINE:+$$(realpath -m "$$ENGINE")} RINGLET_E2E_OLD=$(if $(OLD),$(CURDIR)/build/old) scripts/test.sh e2e

.PHONY: bench
bench: build/plugin build/demo.tar ## Ratios against floors and peers, a row for each goal of speed: make bench BENCH='-goals P1 -peers DIR'
	@$(GO) -C bench run -pgo=../plugin/default.pgo . -dir "$(CURDIR)/build" $(BENCH)

# The compiler goes by the profile that lies beside the program's main package, whoever builds it.
.PHONY: profile
profile: ## Write plugin/default.pgo anew, what the compiler goes by: after changes of the hot path, on a machine at rest
	@mkdir -p build
	@$(GO) -C bench run -pgo=../plugin/default.pgo . -dir "$(CURDIR)/build" -profile "$(CURDIR)/plugin/default.pgo"

.PHONY: microbench
microbench: ## Go's own benchmarks, ten runs, for benchstat
	@$(GO) test -run '^$$' -bench . -count 10 ./...

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME
	@scripts/test.sh fuzz

.PHONY: soak
soak: ## Clusters in simulated time, with new seeds, for SOAK, and a day of one
	@$(GO) test ./ipam -run "TestSimSoak|TestSimDay" -soak $(SOAK) -timeout 0

.PHONY: cover
cover: ## Coverage by package, and build/cover.html
	@mkdir -p build
	@$(GO) test -count=1 -coverprofile=build/cover.out ./...
	@$(GO) tool cover -html=build/cover.out -o build/cover.html
	@$(GO) tool cover -func=build/cover.out | tail -1

##@ Check

.PHONY: check
check: tidy-check test vuln ## The gate: tidy, every test, lint, repro and sbom among them, and known vulnerabilities

.PHONY: lint
lint: ## golangci-lint, staticcheck among its linters, at the version of tools/go.mod
	@scripts/test.sh lint

# As the newest advisories decide, and not the source alone, it is in check, and not in test.
.PHONY: vuln
vuln: ## govulncheck, where its database can be reached; what is accepted, and why: scripts/vuln.txt
	@scripts/test.sh vuln

.PHONY: repro
repro: ## Build twice, as two builders would, and compare all that came out
	@scripts/test.sh repro

.PHONY: fmt
fmt: ## Format all Go files
	@$(GO) tool -modfile=tools/go.mod golangci-lint fmt ./...

.PHONY: tidy-check
tidy-check: ## Fail when go.mod is not tidy
	@$(GO) mod tidy -diff
	@$(GO) -C bench mod tidy -diff
	@$(GO) -C tools mod tidy -diff
	@$(GO) -C tools mod tidy -diff
	@$(GO) mod verify

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z0-9_\/.-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo
