# Everything a newcomer types. `make demo` and `make test` install what they need.

# Without rustup, or with RUSTUP_TOOLCHAIN given, this changes nothing.
ifndef RUSTUP_TOOLCHAIN
RUSTUP_TOOLCHAIN := $(shell PATH=$$PATH:$(HOME)/.cargo/bin scripts/toolchain.sh)
endif
export RUSTUP_TOOLCHAIN
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO := cargo

# `make test` runs them.
.PHONY: crash-kill storms
.PHONY: help setup build demo test lint fmt bench soak coverage fuzz clean deb static book

help:
	@echo 'make demo   a pool, a server, a kill, a proof; a slow drive; tables of latencies (3 minutes)'
	@echo 'make test   everything that must hold: style, unit tests, real clients, crashes'
	@echo 'make bench  latency and throughput beside the ceiling of the transport'
	@echo 'make soak   the long versions of the crash tests (an hour or more)'
	@echo 'make coverage  which lines of the engine the simulated worlds run (about 10 minutes)'
	@echo 'make deb    the Debian package            make static  a program that needs no libraries'
	@echo 'make book   docs as a book of web pages'
	@echo 'make fuzz   fuzzes every parser of foreign bytes, 10 minutes each'
	@echo 'make lint   formatting, clippy, tidy        make fmt    formats the sources'
	@echo 'make build  the release binary              make clean  removes what was built'

setup:
	scripts/setup.sh

build: setup
	$(CARGO) build --locked --release --workspace

demo: build
	scripts/demo.sh

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) run --locked --release --quiet --package xtask -- tidy

fmt:
	$(CARGO) fmt --all

# Tests with servers wait most of the time: as many at once as keep the cores busy. The build puts
# the simulator back that has no bugs to plant.
test: export RUST_TEST_THREADS := $(shell echo $$((4 * $$(nproc))))
test: lint
	$(CARGO) test --locked --release --workspace
	$(CARGO) test --locked --release --workspace --features sim/planted,schemes/planted \
		--test planted -- --skip battery::
	$(CARGO) build --locked --release --workspace
	target/release/steadyraid-sim world --seeds 10000..10600 --jobs 2
	target/release/steadyraid-sim world --seeds 30000..30200 --jobs 2
	target/release/steadyraid-sim world --seeds 500000..500150 --jobs 2
	target/release/steadyraid-sim world --seeds 600000..600150 --jobs 2
	target/release/steadyraid-sim world --seeds 650000..650080 --jobs 2
	target/release/steadyraid-sim world --seeds 700000..700150 --jobs 2
	target/release/steadyraid-sim world --seeds 780000..780150 --jobs 2
	target/release/steadyraid-sim world --seeds 800000..800120 --jobs 2
	target/release/steadyraid-sim world --seeds 850000..850200 --jobs 2
	target/release/steadyraid-sim world --seeds 900000..900120 --jobs 2
	scripts/tests/real_clients.sh
	scripts/tests/nbd_tls.sh
	scripts/tests/filesystem.sh
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target crash-kill storms
	scripts/tests/docs.sh
	scripts/tests/isolation.sh
	scripts/tests/two_hosts.sh
	scripts/fuzz.sh 60

# The one waits for its server most of the time, so the others' load fits beside it.
crash-kill:
	scripts/tests/crash_kill.sh
storms:
	scripts/tests/storm.sh 2 1 --steps 4

bench: build
	scripts/bench.sh

soak: export STEADYRAID_LIMIT := 14400
soak: build
	target/release/steadyraid-sim world --minutes 60 --jobs $$(nproc)
	target/release/steadyraid-sim world --seeds 1..3000 --jobs $$(nproc)
	target/release/steadyraid-sim day
	scripts/tests/crash_kill.sh 3000
	scripts/tests/storm.sh 100
	scripts/tests/filesystem.sh 20
	scripts/tests/real_clients.sh 400
	scripts/tests/drives_die.sh all
	scripts/tests/drives_die.sh pairs
	scripts/tests/console.sh
	scripts/tests/prometheus.sh
	scripts/tests/spread.sh
	scripts/tests/package.sh
	scripts/deny.sh
	scripts/tests/isolation.sh measure
	scripts/tests/two_hosts.sh 50
	scripts/tests/silent_drive.sh
	scripts/bench.sh 1
	scripts/demo.sh
	scripts/coverage.sh 20
	scripts/book.sh
	PROFILE=release scripts/static.sh

deb:
	scripts/package.sh

static:
	scripts/static.sh

book:
	scripts/book.sh

fuzz: setup
	scripts/fuzz.sh 600

# One file with more: scripts/coverage.sh 1000 --cuts --lines
coverage: setup
	scripts/coverage.sh

clean:
	$(CARGO) clean
