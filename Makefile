# holdfast. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
BIN      := bin/holdfast
AGENT    := bin/holdfast-agent
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  := -s -w -X main.version=$(VERSION)
# With the commit, by which bin/holdfast recognizes bin/holdfast-agent as its own, and without gRPC's
# tracing pages, whose templates keep the linker from leaving out unused methods: the agent is a fifth smaller.
BUILD    := $(GO) build -tags grpcnotrace -trimpath -buildvcs=$(shell git status >/dev/null 2>&1 && echo true || echo false)
# Without inlining, the agent is another tenth smaller, and its network is as fast.
SMALL    := -gcflags=all=-l -ldflags '-s -w'
ARCHES   := amd64 arm64
CGO_ENABLED := 0
export CGO_ENABLED

# make e2e-ha
PROFILE  ?= core
PROVIDER ?= local
OUT      ?= results/e2e-ha-$(shell date +%Y%m%d-%H%M%S)
ARGS     ?=

# The versions that the tests run clusters of; see `holdfast fetch --help`.
FETCH       ?= kubernetes default kubernetes v1.36.3 kwok default kubernetes-fused default etcd v3.6.16 etcd v3.5.12
# Packages whose tests start whole clusters: one at a time, for their timing.
INTEGRATION := ./clusters/local/... ./suites/...
TEST_ARGS   ?=
FUZZTIME    ?= 10s
# The fuzz targets of a folder, as a regular expression.
FUZZ        ?= .

##@ Use

.PHONY: e2e-ha
e2e-ha: packages-$(PROVIDER) ## From nothing to a report: a cluster, faults, verdicts (PROFILE, PROVIDER, OUT, ARGS)
	$(BIN) run --profile $(PROFILE) --provider $(PROVIDER) --out $(OUT) $(ARGS)

# The Debian packages that a provider's clusters need; the local one's need none.
packages-%: build ;
.PHONY: packages-kind
packages-kind: build
	@hack/install-packages $$($(BIN) kind packages) || echo "some packages were not installed: holdfast says which ones it needs" >&2

.PHONY: e2e-kind-smoke
e2e-kind-smoke: ## The smoke profile on kind nodes; the first time it builds their images
	$(MAKE) e2e-ha PROVIDER=kind PROFILE=smoke

.PHONY: e2e-variants
e2e-variants: build ## The core profile on healthy clusters with other settings (an hour or more; PROFILE, OUT, ARGS)
	@for file in suites/testdata/variants/*.yaml; do \
	  name=$$(basename $$file .yaml); echo "== $$name"; \
	  $(BIN) run --profile $(PROFILE) --cluster $$file --out $(OUT)/$$name $(ARGS) || { (( $$? == 3 )) || failed+=" $$name"; }; \
	done; \
	[[ -z $${failed:-} ]] || { echo "failed on:$$failed" >&2; exit 1; }

.PHONY: build
build: agent ## Build bin/holdfast, and bin/holdfast-agent, which it copies to the nodes of a vendor's cluster or of kind
	$(BUILD) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/holdfast

.PHONY: agent
agent:
	$(BUILD) $(SMALL) -o $(AGENT) ./cmd/holdfast-agent

.PHONY: fetch
fetch: build ## Download or build the binaries of a control plane (FETCH)
	$(BIN) fetch $(FETCH)

.PHONY: doctor
doctor: build ## Report what this machine can do
	$(BIN) doctor

##@ Develop

.PHONY: test
# The scenarios of ./suites run in ./suites/ginkgotest, as users run them.
test: fetch ## All tests: units first, then those that start clusters (TEST_ARGS)
	$(GO) test -timeout 10m $(TEST_ARGS) $$($(GO) list ./... | grep -vxF -f <($(GO) list $(INTEGRATION)))
	$(GO) test -timeout 10m -short $(TEST_ARGS) ./suites
	$(GO) test -timeout 40m -p 1 $(TEST_ARGS) $$($(GO) list $(INTEGRATION) | grep -v '/suites$$')
	HOLDFAST_TEST_CLUSTERS=1 $(GO) test -timeout 60m -run '^TestCluster' $(TEST_ARGS) ./cmd/holdfast
	$(MAKE) test-library

.PHONY: test-unit
test-unit: ## The tests that start no cluster and need no fetch
	$(GO) test -timeout 10m $(TEST_ARGS) $$($(GO) list ./... | grep -vxF -f <($(GO) list $(INTEGRATION)))

.PHONY: test-library
test-library: fetch ## The example of a vendor's own suite, a module that uses holdfast as a library
	cd docs/library && $(GO) test -timeout 30m -p 1 $(TEST_ARGS) ./...

.PHONY: fuzz
fuzz: ## Fuzz the readers of external input, each for FUZZTIME (FUZZ: those of a folder)
	@grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's,^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z]*)\(.*,\1 \2,' | grep -E '$(FUZZ)' | sort | while read -r dir target; do \
	  echo "== $$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$dir; \
	done

.PHONY: selftest
selftest: fetch ## Plant a violation of every guarantee and see it caught (about two hours; ARGS)
	$(BIN) selftest $(ARGS)

.PHONY: verify
verify: verify-format verify-generated verify-vet verify-imports verify-examples verify-build ## All static checks

.PHONY: verify-format
verify-format:
	@files=$$(gofmt -l .); \
	if [[ -n "$$files" ]]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi

.PHONY: verify-vet
verify-vet:
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	cd hack/bench-network && $(GO) vet ./...
	cd docs/library && $(GO) vet ./...

.PHONY: verify-imports
verify-imports:
	$(GO) test -count=1 ./hack

.PHONY: verify-examples
verify-examples:
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 docs/ci/github-*.yaml
	hack/verify-prow docs/ci/prow-nightly.yaml

.PHONY: verify-generated
verify-generated:
	$(GO) mod tidy -diff
	cd hack/bench-network && $(GO) mod tidy -diff
	cd docs/library && $(GO) mod tidy -diff
	hack/verify-generated

.PHONY: verify-build
verify-build: $(addprefix verify-build-,$(ARCHES))

.PHONY: $(addprefix verify-build-,$(ARCHES))
$(addprefix verify-build-,$(ARCHES)): verify-build-%:
	GOOS=linux GOARCH=$* $(GO) build ./...

.PHONY: bench
bench: fetch ## Benchmarks, as results relative to what the machine can do
	$(GO) test -timeout 60m -p 1 -run '^$$' -bench . $(TEST_ARGS) ./clusters/... ./framework/... ./suites/certify
	$(GO) test -timeout 10m -run '^$$' -bench . -benchtime 1x $(TEST_ARGS) ./reports
	$(GO) test -timeout 60m -run '^$$' -bench 'Up|Inject' -benchtime 1x $(TEST_ARGS) ./cmd/holdfast
	$(MAKE) bench-network

.PHONY: bench-network
bench-network: ## Faults of the network side by side with toxiproxy and nftables
	cd hack/bench-network && $(GO) test -timeout 10m -run '^$$' -bench . -benchtime 1x $(TEST_ARGS) .

.PHONY: clean
clean: ## Remove bin/ and results/ (the cache stays)
	rm -rf bin results

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET [VARIABLE=value ...]" } \
	  /^##@ / { print "\n" substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo; echo "e2e-ha: PROFILE=$(PROFILE) PROVIDER=$(PROVIDER) OUT=results/e2e-ha-DATE ARGS=\"$(ARGS)\""
