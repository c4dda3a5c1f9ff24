# Two commands do everything: `make demo` shows vctl at work, `make test` runs what CI runs.
SHELL := /bin/bash
CACHE := $(or $(VCTL_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/vctl)
export PATH := $(CACHE)/cargo/bin:$(CACHE)/node/bin:$(PATH)
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

.PHONY: help demo down web web-check test lint unit conformance soak bench fuzz clients generate setup setup-tools

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: ## install what is missing, build, start the platform, create an environment, show it running; KIND=real: with real servers
	@KIND=$(KIND) scripts/demo

down: ## stop the demo; nothing of it is left running
	@scripts/down

web: ## build the web console, which the server embeds; nothing is done when nothing changed
	@scripts/web

web-check: setup-tools web ## types, lints, tests and the size of the web console
	@scripts/web check

setup:
	@scripts/setup

setup-tools:
	@scripts/setup tools

test: setup-tools web-check lint unit ## install what is missing, run everything that CI runs

lint: setup-tools web ## formatting, clippy, repository rules, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask check
	cargo xtask generate --check
	cargo deny --log-level error check licenses bans sources

# One profile for unit tests, the platform and the end-to-end tests; the binary is built first because the harness runs it.
unit: setup-tools web
	cargo build --locked --package vctl
	cargo nextest run --workspace --locked --profile ci

conformance: setup-tools ## upstream's API conformance behaviours, told again; prints how many checks pass
	@cargo build --locked --package vctl
	@set -o pipefail; cargo test --quiet --locked --package vctl-tests --test conformance -- --nocapture --test-threads=1 2>&1 | scripts/conformance-count

# The informers' soak is part of `make test` for 20 seconds; so are the kills of the store, 20 and 10 of them, and 3 examples of every REST operation.
soak: setup-tools ## five minutes of informers, kubectl wait and helm --wait under load, cuts, compaction and a kill; 10,000 idle connections; 60 examples of every REST operation; 200 kills of the store
	cargo build --locked --release --package vctl
	VCTL_BIN=$(TARGET)/release/vctl VCTL_SOAK_SECONDS=$(or $(VCTL_SOAK_SECONDS),300) \
		cargo test --quiet --locked --package vctl-tests --test soak informers -- --nocapture
	VCTL_BIN=$(TARGET)/release/vctl VCTL_IDLE_CONNECTIONS=$(or $(VCTL_IDLE_CONNECTIONS),10000) \
		cargo test --quiet --locked --package vctl-tests --test e2e idle_connections -- --nocapture
	VCTL_BIN=$(TARGET)/release/vctl VCTL_SCHEMATHESIS_EXAMPLES=$(or $(VCTL_SCHEMATHESIS_EXAMPLES),60) \
		cargo test --quiet --locked --package vctl-tests --test e2e the_rest_api_is_what_its_document_says -- --nocapture
	VCTL_KILLS=$(or $(VCTL_KILLS),200) cargo test --quiet --locked --package vctl-store survives

bench: ## print the figures of docs/benchmarks.md
	@scripts/setup bench
	@scripts/web
	cargo build --locked --release --package vctl --package vctl-bench
	VCTL_BIN=$(TARGET)/release/vctl $(TARGET)/release/vctl-bench all

fuzz: ## fuzz what reads bytes of clients, VCTL_FUZZ_SECONDS (60) for each target; needs a nightly toolchain
	@scripts/fuzz

clients: ## compile the client side for Windows and macOS
	@scripts/clients

generate: ## generate the committed facts again from the registry packages
	cargo xtask generate
