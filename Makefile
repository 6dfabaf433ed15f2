# `make` prints what there is. Everything is Go: no other tool has to be installed, only a C compiler for -race.

GO        ?= go
VERSION   ?= $(shell git describe --tags --dirty 2>/dev/null || echo "v0.0.0-dev+$$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)")
FUZZTIME  ?= 30s
RACE      := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
# The version is passed on below; asking Git for it again fails where the checkout belongs to someone else.
export GOFLAGS := -buildvcs=false $(GOFLAGS)
# No C compiler is needed, and programs, tests and vet share one build of Kubernetes. Only -race needs cgo.
export CGO_ENABLED := 0

# What `make generate` writes.
GENERATED := api/v1/zz_generated.deepcopy.go config/crd internal/install/testdata/flux docs/parity.md

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z\/-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build and run

.PHONY: build
build: bin/holdfast bin/devcluster ## Build bin/holdfast and bin/devcluster (the first time about 6 minutes on 2 cores)

# The Go build cache knows what has changed, so both are always given to it.
.PHONY: bin/holdfast
bin/holdfast: ## Build the controller and command line
	$(GO) build -ldflags "-s -w -X main.version=$(VERSION)" -o $@ ./cmd/holdfast

.PHONY: bin/devcluster
bin/devcluster: ## Build the embedded Kubernetes
	cd devcluster && $(GO) build -ldflags "-s -w" -o ../$@ .

.PHONY: demo
demo: build ## Show a broken rollout that loses nothing, on the embedded Kubernetes
	$(GO) run ./test/demo

##@ Test

.PHONY: unit
unit: ## Test what needs no cluster (seconds, once built)
	$(GO) test $$($(GO) list ./... | grep -v '/test/integration$$' | grep -v '/test/demo$$')

.PHONY: test
test: verify check cover bin/holdfast bin/devcluster ## Everything that must pass: generated files, format, vet, all tests of both modules
	cd devcluster && DEVCLUSTER=$(CURDIR)/bin/devcluster $(GO) test ./...
	CGO_ENABLED=$(if $(RACE),1,0) $(GO) test $(RACE) -shuffle=on -timeout 25m ./...

# What decides about deletions, and the least share of its statements in percent that its own tests run.
CORE     := ./internal/plan ./internal/usage ./internal/inventory ./internal/object
COVERAGE := 95

.PHONY: cover
cover: ## Fail if the tests of a package that decides about deletions leave too much of it out
	@$(GO) test -vet=off -cover $(CORE) | awk -v least=$(COVERAGE) '{print} $$1 != "ok" {bad = 1} \
		/coverage:/ {for (i = 1; i < NF; i++) if ($$i == "coverage:" && $$(i+1)+0 < least) {print "less than " least "%: " $$2; bad = 1}} END {exit bad}'

# The packages whose branches a simulation counts.
SIM_PACKAGES = ./internal/plan,./internal/usage,./internal/policy,./internal/inventory,./internal/trigger,./internal/controller/kustomization

.PHONY: sim
sim: ## Simulate for two minutes, or STEPS steps (FROM=seed repeats a run), or one run by its SEED (HISTORY=file keeps what happened in a failing one)
	@mkdir -p bin
	SIM=1 SEED=$(SEED) STEPS=$(STEPS) FROM=$(FROM) HISTORY=$(abspath $(HISTORY)) $(GO) test -vet=off -count=1 -timeout 0 -v -run '^TestSimulation$$' \
		-coverpkg=$(SIM_PACKAGES) -coverprofile=bin/simulation.cover ./test/simulation
	@$(GO) run ./test/simulation/branches bin/simulation.cover

.PHONY: mutants
mutants: ## Put deliberate faults into the source, one at a time, and tell which checks find each (FAULTS="part of a name" CHECKS=unit RESUME=1)
	$(GO) run ./test/mutants -checks "$(CHECKS)" $(if $(RESUME),-resume) $(FAULTS)

.PHONY: bench
bench: build ## Measure a fleet on the embedded Kubernetes (ARGS="-n 300 -stuck 12"; PEER_CMD='...' runs another controller beside it)
	$(GO) run ./test/bench $(ARGS)

.PHONY: bench-core
bench-core: ## Measure planner, usage, inventories, lists of users and builds at their limits (BENCH=part of a name, COUNT=5)
	$(GO) test -vet=off -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),1) ./internal/plan ./internal/usage ./internal/inventory ./internal/observe ./internal/build

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME
	@grep -rl --include='*_test.go' '^func Fuzz' cmd internal api test | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		for target in $$($(GO) test -list '^Fuzz' ./$$dir | grep '^Fuzz'); do \
			echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$dir || exit 1; \
		done; \
	done

##@ Look after the code

.PHONY: generate
generate: ## Write deep copies and CRDs from the API types, and docs/parity.md from the tests
	$(GO) tool controller-gen object paths=./api/v1
	$(GO) tool controller-gen crd paths=./api/v1 output:crd:dir=config/crd
	$(GO) tool controller-gen crd paths=github.com/fluxcd/source-controller/api/v1 output:crd:dir=config/crd
	$(GO) tool controller-gen crd paths=github.com/fluxcd/kustomize-controller/api/v1 output:crd:dir=internal/install/testdata/flux
	$(GO) run ./test/parity

.PHONY: verify
verify: ## Fail if generated files are not what `make generate` writes
	@before=$$(find $(GENERATED) -type f | sort | xargs sha256sum); \
	$(MAKE) --no-print-directory generate || exit 1; \
	after=$$(find $(GENERATED) -type f | sort | xargs sha256sum); \
	if [ "$$before" != "$$after" ]; then \
		echo "generated files were not up to date and have been written again: review and commit them" >&2; exit 1; \
	fi

.PHONY: check
check: ## Fail on code that is not formatted or that go vet warns about
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './.build/*')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	cd devcluster && $(GO) vet ./...

.PHONY: lint
lint: check .build/golangci-lint ## Run all linters of .golangci.yml; the linter is built first
	.build/golangci-lint run ./...
	cd devcluster && ../.build/golangci-lint run --config ../.golangci.yml ./...

.build/golangci-lint: hack/tools/go.mod hack/tools/go.sum
	cd hack/tools && $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .build
