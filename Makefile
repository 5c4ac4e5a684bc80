# What one does with this repository. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# End-to-end tests wait more than they compute: on two cores twelve at once keep two thirds of them busy.
export RUST_TEST_THREADS ?= 12

# Servers with Prometheus' API, beside Prometheus itself.
SERVERS := prometheus-2.42 victoria-metrics thanos

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What makes a node with real pods, beside the control plane.
NODE_PARTS := etcd kube-apiserver kube-controller-manager kubectl kubelet kube-proxy kube-scheduler \
	containerd containerd-shim-runc-v2 ctr coredns pause runc cni-plugins nft

# Images are packed from static programs. Their paths are mapped, so that a program does not tell where it was built, and
# another clone gives the same bytes.
STATIC := x86_64-unknown-linux-musl
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
NODE_IMAGES := $(TARGET_DIR)/node-images
CARGO_HOME_DIR := $(or $(CARGO_HOME),$(HOME)/.cargo)
CARGO_CYCLONEDX := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hedgerow/cargo-cyclonedx-0.5.9
STATIC_BUILD = PATH="$(CURDIR)/.ci/path:$$PATH" RUSTC_WORKSPACE_WRAPPER=rustc-from-anywhere \
	RUSTFLAGS='--remap-path-prefix=$(CARGO_HOME_DIR)=/cargo' \
	cargo build --locked --release --target $(STATIC)

.PHONY: parts
parts: ## Build the real parts (Kubernetes, etcd, Prometheus) into a cache: ten minutes once, then a second
	@tests/parts/build

.PHONY: servers
servers: ## Build the other servers that tests read from (VictoriaMetrics, Thanos, an old Prometheus): three minutes once
	@tests/parts/build $(SERVERS)

.PHONY: node-parts
node-parts: ## Build what a node with real pods needs (kubelet, containerd ...): six minutes once
	@tests/parts/build $(NODE_PARTS)

.PHONY: helm
helm: ## Build Helm 3 and 4, which install the chart in tests: three minutes once
	@tests/parts/build helm-3 helm-4

.PHONY: programs
programs: ## Build the readers of documents (Cassandra, the DataStax driver, HDFS, Loki, Envoy, gRPC ...): a few minutes once
	@tests/parts/build envoy
	@tests/programs/build

.PHONY: static
static:
	@rustup target list --installed | grep -qx $(STATIC) || rustup target add $(STATIC)
	@type -P musl-gcc >/dev/null || { echo "there is no musl-gcc: apt-get install musl-tools" >&2; exit 1; }

.PHONY: image
image: static ## Build the operator's image, an OCI archive of one static program; prints its size and digest
	$(STATIC_BUILD) -p hedgerow
	@mkdir -p $(TARGET_DIR)/images
	@tests/node/pack $(TARGET_DIR)/images/hedgerow.tar localhost/hedgerow:dev 65532:65532 \
		$(TARGET_DIR)/$(STATIC)/release/hedgerow

.PHONY: image-check
image-check: ## Build the image from two clones in two places, and compare: the same commit gives the same digest. Slow
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	for clone in here somewhere/else; do \
		git clone --quiet . "$$folder/$$clone"; \
		env -u CARGO_TARGET_DIR $(MAKE) -C "$$folder/$$clone" image; \
	done; \
	cmp "$$folder/here/target/images/hedgerow.tar" "$$folder/somewhere/else/target/images/hedgerow.tar"; \
	echo "both are the same"

# Built as the tests are: optimised, our crates alone would take minutes in every clone. RELEASE=1 is for the last look.
.PHONY: node-images
node-images: static $(if $(RELEASE),image) ## Build the images that pods of the tests run (RELEASE=1: the operator's as it is shipped)
	cargo build --locked --target $(STATIC) -p hedgerow -p hedgerow-mounted-client -p hedgerow-search-cluster
	@tests/parts/build prometheus
	@mkdir -p $(NODE_IMAGES)
	@for program in hedgerow mounted-client search-cluster; do \
		tests/node/pack $(NODE_IMAGES)/$$program.tar localhost/$$program:dev 65532:65532 \
			$(TARGET_DIR)/$(STATIC)/debug/$$program; \
	done
	@tests/node/pack $(NODE_IMAGES)/prometheus.tar localhost/prometheus:dev 65532:65532 \
		"$$(tests/parts/build --no-build --path prometheus)"
	$(if $(RELEASE),cp $(TARGET_DIR)/images/hedgerow.tar $(NODE_IMAGES)/)

.PHONY: demo
demo: $(if $(NODE),node-parts helm node-images) ## Play the help-desk case on the real parts: 5 minutes once built (KEEP=1 leaves everything running, NODE=1 plays in pods)
	@tests/parts/build etcd kube-apiserver kubectl prometheus
	@echo "building the operator and the search cluster (a few minutes, once)"
	cargo build --locked --package hedgerow --package hedgerow-search-cluster --package hedgerow-demo
	@"$${CARGO_TARGET_DIR:-target}/debug/hedgerow-demo" $(if $(KEEP),--keep) $(if $(NODE),--node)

.PHONY: measure
measure: ## Compare ways of hedging under the same load: 8 minutes once built (ARGS='--scenario brown-out' plays one case)
	@tests/parts/build etcd kube-apiserver kubectl prometheus >&2
	@echo "building the operator and the search cluster (a few minutes, once)" >&2
	cargo build --locked --package hedgerow --package hedgerow-search-cluster --package hedgerow-measure
	@"$${CARGO_TARGET_DIR:-target}/debug/hedgerow-measure" $(ARGS)

.PHONY: metastable
metastable: ## Simulate a brown-out that some ways of hedging make last: half a minute once built
	@cargo run --quiet --locked --package hedgerow-metastable -- $(ARGS)

.PHONY: test
test: parts servers helm programs lint ## Run every check and every test, on the real parts: about 15 minutes once they are built
	@echo "== tests: unit, property, end-to-end, and every command of the documents; a failed end-to-end test leaves its logs in $${CARGO_TARGET_DIR:-target}/e2e"
	@tests/parts/build libfaketime
	cargo test --workspace --locked
	@$(MAKE) test-node-where-allowed

.PHONY: test-docs
test-docs: parts helm ## Type every command of README.md and docs/ alone, as a reader would, and compare what is shown
	cargo test --workspace --locked --test docs -- $(ARGS)

.PHONY: lint
lint: ## Check format, lints and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

.PHONY: e2e
e2e: parts helm ## Run the end-to-end tests alone; ARGS=NAME runs those with NAME in their path
	@tests/parts/build libfaketime
	@tests/programs/build flux argo-health
	cargo test --workspace --locked --test e2e -- $(ARGS)

.PHONY: test-faults
test-faults: parts ## Break everything, also what takes long (half an hour), and print what was published meanwhile
	@tests/parts/build libfaketime
	cargo test --workspace --locked --test faults -- --include-ignored --nocapture $(ARGS)

.PHONY: fuzz
fuzz: ## Fuzz each target for MINUTES (5) from its corpus and keep what is new; ARGS='render policy' names targets
	@tests/fuzz/run --keep $(ARGS) -- -max_total_time=$$(($(or $(MINUTES),5) * 60))

# Five seconds for each target at most.
.PHONY: fuzz-briefly
fuzz-briefly:
	@tests/fuzz/run -- -seed=1 -runs=20000 -max_total_time=5

.PHONY: test-node
test-node: node-allowed node-parts helm node-images ## Test with real pods on a real kubelet, as root: about 5 minutes once built
	cargo test --workspace --locked --test node -- --ignored --nocapture --test-threads=1 $(ARGS)

.PHONY: node-allowed
node-allowed: static
	@tests/node/up --check

# The last words of a run, so that nobody takes what was skipped for passed.
.PHONY: test-node-where-allowed
test-node-where-allowed:
	@why=$$($(MAKE) node-allowed 2>&1) || { \
		printf '\n*** SKIPPED: the tests with real pods (make test-node). Here:\n%s\n' "$$why" >&2; exit 0; }; \
	$(MAKE) test-node

.PHONY: crds
crds: ## Write the generated files in crds/ anew, and the copy in the chart
	@mkdir -p crds
	cargo run --quiet --locked -p hedgerow -- crd > crds/hedgepolicies.hedgerow.dev.yaml
	cargo run --quiet --locked -p hedgerow -- schema > crds/native-document.schema.json
	cp crds/hedgepolicies.hedgerow.dev.yaml charts/hedgerow/files/

.PHONY: manifests
manifests: helm ## Write anew what is made of the chart: the plain manifests, its table of values, the golden files
	HEDGEROW_BLESS=1 cargo test --locked --workspace --test chart -- golden:: plain::the_plain_files table::

.PHONY: record-release
record-release: parts ## Keep the CRD and what this version stores under it, once for each release
	cargo test --workspace --locked --test e2e -- --ignored --exact upgrade::record_this_release

# What writes the bills of materials. It runs for a second: an optimised build would take longer than it saves.
$(CARGO_CYCLONEDX)/bin/cargo-cyclonedx:
	cargo install --debug cargo-cyclonedx --version $(patsubst cargo-cyclonedx-%,%,$(notdir $(CARGO_CYCLONEDX))) --locked \
		--root $(CARGO_CYCLONEDX) --target-dir $(CARGO_CYCLONEDX)/target
	rm -rf $(CARGO_CYCLONEDX)/target

.PHONY: release
release: static helm $(CARGO_CYCLONEDX)/bin/cargo-cyclonedx ## Put together the files of a release, in target/release-files (see docs/release.md)
	@.ci/release --check
	$(STATIC_BUILD) -p hedgerow
	$(STATIC_BUILD) -p kubectl-hedge
	@helm=$$(tests/parts/build --no-build --path helm-4); bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	ln -s "$$helm" "$$bin/helm"; \
	PATH="$$bin:$(CARGO_CYCLONEDX)/bin:$$PATH" .ci/release $(TARGET_DIR)/release-files $(TARGET_DIR)/$(STATIC)/release

.PHONY: bench-rss
bench-rss: parts helm ## Print what the operator costs with 100 policies: memory, CPU, queries
	cargo test --workspace --locked --test e2e -- --ignored --exact cost::of_a_hundred_policies --nocapture

.PHONY: deny
deny: ## Check licences, sources and bans of the dependencies (needs cargo-deny)
	cargo deny --locked check licenses bans sources

.PHONY: advisories
advisories: ## Look for known faults of the dependencies, in a database on GitHub (needs cargo-deny)
	cargo deny --locked check advisories

.PHONY: clean
clean: ## Remove what Cargo built; the parts' cache stays
	cargo clean
