# LaneFS from a fresh clone: `make demo` and `make test` do all of their own set-up. `make` lists the targets.

CARGO  ?= cargo
LANEFS  = $(or $(CARGO_TARGET_DIR),target)/release/lanefs
# The program of the demo, which builds in half the time: without stores of the network.
DEMO    = $(or $(CARGO_TARGET_DIR),target)/demo/lanefs
BENCH   = $(or $(CARGO_TARGET_DIR),target)/release/lanefs-bench

# Length of a soak in seconds; a seed replays one (`make soak SEED=...`).
SECONDS ?= 600
SEED    ?=
# A crash state that `make crash-soak` or a test named, to be tried again.
CASE    ?=
# Parts of `make sanitize`, `make dist` and `make test-dist`; empty: all.
PARTS   ?=
# Tree of the demo; empty: the demo's own default.
TREE    ?=
# Further arguments of `lanefs-bench`, for example ARGS="--quick --json namespace.json".
ARGS    ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: count scale count-changes count-lookups gpu-report help setup setup-build setup-sanitize setup-bench setup-publish setup-python setup-dist setup-header build build-bench demo test lint msrv packages user-crate docs sanitize fuzz aarch64 bench bench-lookup bench-read bench-search bench-publish bench-concurrency bench-alloc bench-gpu bench-gpu-host device-header bench-mount bench-scale bench-sync bench-python dist test-dist plots mount-conformance publish-conformance soak crash-soak hostile-soak alloc-soak python test-torch test-clients test-ray clean

help: ## list the targets
	@echo "LaneFS: what make can do"
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r target what; do \
		printf '  make %-17s %s\n' "$$target" "$$what"; done

setup: ## install what tests need and the machine lacks (names it where it may not)
	@echo "==> setup: what building and testing need"
	@sh scripts/setup.sh build test

setup-build:
	@echo "==> setup: what building needs"
	@sh scripts/setup.sh build

setup-python:
	@echo "==> setup: what building the Python package needs"
	@sh scripts/setup.sh build python

setup-sanitize:
	@echo "==> setup: what sanitizers and fuzzing need"
	@sh scripts/setup.sh build sanitize $(if $(PARTS),$(filter fuzz,$(PARTS)),fuzz)

setup-dist:
	@echo "==> setup: what building and trying packages need"
	@sh scripts/setup.sh build dist

setup-bench:
	@echo "==> setup: what building, testing and benchmarks need"
	@sh scripts/setup.sh build test bench

# Testers and servers of other projects.
TOOLS = $(abspath $(or $(CARGO_TARGET_DIR),target)/tools)

# The servers come from crates.io, the Go proxy and npm; scripts/publish-conformance.sh has their versions.
setup-publish:
	@echo "==> setup: what publications are compared with"
	@sh scripts/setup.sh build test bench publish
	@bash scripts/publish-conformance.sh --install $(TOOLS)

build: setup-build ## build the command line, release
	@echo "==> build: $(LANEFS)"
	@$(CARGO) build --release --locked -p lanefs-cli --bin lanefs

build-bench: setup-bench build
	@echo "==> build-bench: $(BENCH)"
	@$(CARGO) build --release --locked -p lanefs-bench --bin lanefs-bench

demo: setup-build ## import a real tree, resolve every path, export, compare, check
	@echo "==> demo: build $(DEMO)"
	@$(CARGO) build --profile demo --no-default-features --locked -p lanefs-cli --bin lanefs
	@echo "==> demo: $(DEMO) demo"
	@$(DEMO) demo $(if $(TREE),--tree $(TREE))

test: setup lint ## set-up, lints, every test, documentation
	@python3 scripts/tests.py
	@echo "==> test: all passed"

python: setup-python ## the wheel of the Python package, in target/wheels, installed in target/python
	@echo "==> python: the wheel"
	@sh scripts/python.sh $(or $(CARGO_TARGET_DIR),target)

dist: setup-dist ## what people install, for x86-64 and aarch64, in target/dist (PARTS="programs debs")
	@sh scripts/dist.sh $(or $(CARGO_TARGET_DIR),target) $(PARTS)

test-dist: setup-dist ## try what `make dist` made where nothing else is installed (PARTS="static deb")
	@sh scripts/test-dist.sh $(or $(CARGO_TARGET_DIR),target) $(PARTS)

bench-python: python ## small files through Python, against the host's file system, LMDB and SQLite (ARGS="--files 30000")
	@echo "==> bench-python: python -m lanefs.bench $(ARGS)"
	@$(or $(CARGO_TARGET_DIR),target)/python/bin/python -m lanefs.bench $(ARGS)

test-torch: setup-python ## the Python package with PyTorch, which it installs in target/python-torch
	@echo "==> test-torch: data sets of PyTorch"
	@sh scripts/python.sh $(or $(CARGO_TARGET_DIR),target) torch

test-clients: setup-python ## pandas, pyarrow, polars, zarr, dask, h5py and others on volumes, installed in target/python-clients
	@echo "==> test-clients: programs that write and read volumes by URL and by an instance"
	@sh scripts/python.sh $(or $(CARGO_TARGET_DIR),target) clients

test-ray: setup-python ## the Python package in a cluster of Ray on this machine, installed in target/python-ray
	@echo "==> test-ray: files as a data set, publications that tasks build"
	@sh scripts/python.sh $(or $(CARGO_TARGET_DIR),target) ray

lint: ## rustfmt, clippy, prose, numbers of the documents, licences and duplicates of dependencies
	@echo "==> lint: rustfmt"
	@$(CARGO) fmt --all --check
	@echo "==> lint: clippy"
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@echo "==> lint: prose"
	@sh scripts/prose.sh --self-test
	@sh scripts/prose.sh
	@echo "==> lint: numbers of the documents"
	@python3 scripts/kept_numbers.py --self-test
	@python3 scripts/kept_numbers.py --check
	@echo "==> lint: dependencies"
	@sh scripts/deny.sh
	@echo "==> lint: features of the program that people install"
	@sh scripts/shipped.sh

msrv: ## check with the oldest Rust that Cargo.toml promises
	@echo "==> msrv: rust-version of Cargo.toml"
	@sh scripts/msrv.sh

packages: ## package every crate that is published, and build each from its package alone
	@echo "==> packages: each built alone"
	@sh scripts/package.sh $(or $(CARGO_TARGET_DIR),target)

user-crate: ## a program that uses LaneFS as a library, with newer dependencies of its own
	@echo "==> user-crate: a program of another workspace"
	@sh scripts/user-crate.sh $(or $(CARGO_TARGET_DIR),target)

sanitize: setup-sanitize ## Miri, ThreadSanitizer, AddressSanitizer, fuzz targets in short, aarch64 (PARTS="miri tsan")
	@sh scripts/sanitize.sh $(PARTS)

fuzz: setup-sanitize ## each fuzz target for SECONDS=600
	@FUZZ_SECONDS=$(SECONDS) sh scripts/sanitize.sh fuzz

aarch64: setup-sanitize ## build and test the crates with code for one processor on aarch64, under qemu
	@sh scripts/sanitize.sh aarch64

docs: ## write the generated tables of docs/format.md and docs/publication.md again
	@echo "==> docs: tables of docs/format.md and docs/publication.md from the code"
	@UPDATE_DOCS=1 $(CARGO) test -p lanefs-format -p lanefs-publish --locked --test it document

bench-lookup: build-bench ## batches of paths against ext4, tmpfs and a hash map
	@echo "==> bench-lookup: $(BENCH) lookup $(ARGS)"
	@$(BENCH) lookup $(ARGS)

bench-read: build-bench ## whole small files in random order against ext4 and an indexed archive
	@echo "==> bench-read: $(BENCH) read $(ARGS)"
	@$(BENCH) read $(ARGS)

bench-sync: build-bench ## a tree that changes goes into a volume again, beside rsync, cp and restic (ARGS="--quick")
	@echo "==> bench-sync: $(BENCH) sync $(ARGS)"
	@$(BENCH) sync $(ARGS)

bench-scale: build-bench ## volumes of 1 GiB to 1 PiB, and few and many things of a kind (ARGS="--quick")
	@echo "==> bench-scale: $(BENCH) scale $(ARGS)"
	@$(BENCH) scale $(ARGS)

bench-search: build-bench ## lines, equal files and fuzzy names against ripgrep, fclones, fzf and nucleo (ARGS="--quick")
	@echo "==> bench-search: $(BENCH) search $(ARGS)"
	@$(BENCH) search $(ARGS)

bench-publish: setup-publish build-bench ## publications on an S3 server over slow links, beside restic, tar and mounts (ARGS="--quick")
	@echo "==> bench-publish: $(BENCH) publish $(ARGS)"
	@$(BENCH) publish --server $(TOOLS)/bin/versitygw $(ARGS)

scale: setup-build ## a publication of 10^9 files on paper, and 1,000 simulated readers (docs/scale.md)
	@echo "==> scale: constants of small volumes, a formula and a simulation"
	@$(CARGO) run --release --locked -p lanefs-publish --example scale

bench: build-bench ## namespace operations against ext4 and tmpfs (ARGS="--quick")
	@echo "==> bench: $(BENCH) namespace $(ARGS)"
	@$(BENCH) namespace $(ARGS)

bench-concurrency: build-bench ## threads at once, against ext4, tmpfs, fio and LaneFS unguarded (ARGS="--quick")
	@echo "==> bench-concurrency: $(BENCH) concurrency $(ARGS)"
	@$(BENCH) concurrency $(ARGS)

# A peer that cannot be built is left out, which the output says.
PEERS = $(abspath $(or $(CARGO_TARGET_DIR),target)/peers)

bench-alloc: build-bench ## the allocator against glibc, mimalloc, jemalloc and others (ARGS="--quick")
	@echo "==> bench-alloc: the library to preload"
	@$(CARGO) build --release --locked -p lanefs-alloc-c
	@echo "==> bench-alloc: the peers, in $(PEERS)"
	@cd peers && $(CARGO) build --release --locked --keep-going --target-dir $(PEERS) || echo "==> bench-alloc: goes on without what could not be built"
	@echo "==> bench-alloc: $(BENCH) alloc $(ARGS)"
	@$(BENCH) alloc $(ARGS)

bench-gpu: build-bench ## lookups by the GPU engine against the CPU engine and ext4 (ARGS="--quick")
	@echo "==> bench-gpu: $(BENCH) gpu $(ARGS)"
	@$(BENCH) gpu $(ARGS)

bench-gpu-host: setup-bench ## the host's part of lookups by a device, without one: ns a path, allocations, page faults
	@echo "==> bench-gpu-host: crates/gpu/examples/host_side.rs on a device that does nothing"
	@$(CARGO) run --release --locked -p lanefs-gpu --example host_side

setup-header:
	@echo "==> setup: what the header for kernels of other programs is compiled with"
	@sh scripts/setup.sh build test header

device-header: setup-header ## the header for kernels of other programs: a million lookups, and its registers in CUDA and HIP
	@echo "==> device-header: 10^6 random lookups beside the twins"
	@LANEFS_LOOKUPS=250000 $(CARGO) test -p lanefs-gpu --locked --test it -- device_header::lookups_are
	@echo "==> device-header: CUDA C++ and HIP"
	@python3 scripts/device_header.py $(or $(CARGO_TARGET_DIR),target)

bench-mount: build-bench ## a mounted volume against ext4, tmpfs and a FUSE passthrough, as root (ARGS="--quick")
	@echo "==> bench-mount: $(BENCH) mount $(ARGS)"
	@$(BENCH) mount $(ARGS)

plots: build-bench ## draw the kept reports into docs/plots, and write their numbers into the documents
	@echo "==> plots: docs/results into docs/plots"
	@$(BENCH) plot docs/results/*.json --out docs/plots
	@python3 scripts/kept_numbers.py --write

gpu-report: setup ## registers, spills, code and reads of each kernel, counted without a GPU
	@echo "==> gpu-report: RADV's compiler and the twins"
	@$(CARGO) test -p lanefs-gpu --locked --test it counters:: -- --nocapture --test-threads=1

# The built example of another commit, to compare with.
OTHER ?=

count: setup-bench ## instructions of the engine's main operations, by callgrind (OTHER=example of another commit)
	@$(CARGO) build --release --locked -p lanefs --example count
	@echo "==> count: instructions by phase"
	@sh scripts/count.sh $(or $(CARGO_TARGET_DIR),target)/release/examples/count $(OTHER)

count-changes: setup-bench ## instructions of changes one by one and of the host's part of a batch (OTHER=...)
	@$(CARGO) build --release --locked -p lanefs-gpu --example count_changes
	@echo "==> count-changes: instructions by phase"
	@PHASES="alone_create together_create alone_flat together_flat alone_unlink together_unlink" \
		sh scripts/count.sh $(or $(CARGO_TARGET_DIR),target)/release/examples/count_changes $(OTHER)

count-lookups: setup-bench ## the host's instructions for 100,000 lookups by each engine (OTHER=...)
	@$(CARGO) build --release --locked -p lanefs-gpu --example count_lookups
	@echo "==> count-lookups: instructions by phase"
	@PHASES="cpu_exists cpu_attributes cpu_names gpu_exists gpu_attributes gpu_names" \
		sh scripts/count.sh $(or $(CARGO_TARGET_DIR),target)/release/examples/count_lookups $(OTHER)

# Steps of each run of fsx.
STEPS ?= 1000000

mount-conformance: setup build ## pjdfstest and fsx on mounted volumes, as root (STEPS=1000000)
	@echo "==> mount-conformance: $(STEPS) steps of each fsx"
	@sh scripts/mount-conformance.sh $(LANEFS) $(TOOLS) $(STEPS)

publish-conformance: setup setup-publish build python ## publications on real servers of S3 and Azure, on this machine (KILLS=20)
	@echo "==> publish-conformance"
	@bash scripts/publish-conformance.sh $(LANEFS) $(TOOLS) $(or $(CARGO_TARGET_DIR),target)/python/bin/python

soak: setup-build ## random operations against the model for SECONDS=600 (SEED=... replays)
	@echo "==> soak: $(SECONDS) seconds"
	@$(CARGO) run --release --locked -p lanefs-testkit --bin soak -- --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

crash-soak: setup-build ## power cuts for SECONDS=600 (SEED=... replays, CASE=... tries one state again)
	@echo "==> crash-soak: $(if $(CASE),$(CASE),$(SECONDS) seconds)"
	@$(CARGO) run --release --locked -p lanefs-testkit --bin crash_soak -- --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE))

# Images that `make hostile-soak` tries.
IMAGES ?= 100000

hostile-soak: setup-build ## hostile images, tried, repaired and worked on (IMAGES=100000)
	@echo "==> hostile-soak: $(IMAGES) images"
	@LANEFS_IMAGES=$(IMAGES) $(CARGO) test --locked -p lanefs-testkit --test it hostile:: -- --nocapture

alloc-soak: setup-build ## the heap: sizes that change, overlap, resident memory for SECONDS=600 (SEED=... replays)
	@echo "==> alloc-soak: $(SECONDS) seconds"
	@$(CARGO) run --release --locked -p lanefs-testkit --bin alloc_soak -- --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

clean: ## remove what was built
	@echo "==> clean: $(CARGO) clean"
	@$(CARGO) clean
