# What one does with this repository. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# End-to-end tests wait more than they compute: more of them at once than there are cores.
export RUST_TEST_THREADS ?= 8

# Servers with Prometheus' API, beside Prometheus itself.
SERVERS := prometheus-2.42 victoria-metrics thanos

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: parts
parts: ## Build the real parts (Kubernetes, etcd, Prometheus) into a cache: ten minutes once, then a second
	@tests/parts/build

.PHONY: servers
servers: ## Build the other servers that tests read from (VictoriaMetrics, Thanos, an old Prometheus): three minutes once
	@tests/parts/build $(SERVERS)

.PHONY: demo
demo: ## Play the help-desk case on the real parts: 5 minutes once built (KEEP=1 leaves everything running)
	@tests/parts/build etcd kube-apiserver kubectl prometheus
	@echo "building the operator and the search cluster (a few minutes, once)"
	cargo build --locked --package hedgerow --package hedgerow-search-cluster --package hedgerow-demo
	@"$${CARGO_TARGET_DIR:-target}/debug/hedgerow-demo" $(if $(KEEP),--keep)

.PHONY: measure
measure: ## Compare ways of hedging under the same load: 7 minutes once built (ARGS='--scenario brown-out' plays one case)
	@tests/parts/build etcd kube-apiserver kubectl prometheus >&2
	@echo "building the operator and the search cluster (a few minutes, once)" >&2
	cargo build --locked --package hedgerow --package hedgerow-search-cluster --package hedgerow-measure
	@"$${CARGO_TARGET_DIR:-target}/debug/hedgerow-measure" $(ARGS)

.PHONY: test
test: parts servers lint ## Run every check and every test, on the real parts: about 10 minutes once the parts are built
	@echo "== tests: unit, property and end-to-end; a failed end-to-end test leaves its logs in $${CARGO_TARGET_DIR:-target}/e2e"
	cargo test --workspace --locked

.PHONY: lint
lint: ## Check format, lints and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

.PHONY: e2e
e2e: parts ## Run the end-to-end tests alone; ARGS=NAME runs those with NAME in their path
	cargo test --locked -p hedgerow-tests --test e2e -- $(ARGS)

.PHONY: crds
crds: ## Write the generated files in crds/ anew
	@mkdir -p crds
	cargo run --quiet --locked -p hedgerow -- crd > crds/hedgepolicies.hedgerow.dev.yaml
	cargo run --quiet --locked -p hedgerow -- schema > crds/native-document.schema.json

.PHONY: bench-rss
bench-rss: parts ## Print what the operator costs with 100 policies: memory, CPU, queries
	cargo test --locked -p hedgerow-tests --test e2e -- --ignored --exact cost::of_a_hundred_policies --nocapture

.PHONY: deny
deny: ## Check licences, sources and bans of the dependencies (needs cargo-deny)
	cargo deny --locked check licenses bans sources

.PHONY: clean
clean: ## Remove what Cargo built; the parts' cache stays
	cargo clean
