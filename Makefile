# SPDX-License-Identifier: MIT OR Apache-2.0
# Two commands matter to a newcomer: `make demo` and `make test`. `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SEED   ?= 0
# Real traces for the demo: LINNET_SHARED, or a folder `shared` beside the checkout, where the tests look too.
SHARED := $(or $(LINNET_SHARED),$(wildcard ../shared))

# The observer of `linnet tune` is a BPF program, compiled where clang is found; without it the command says what it cannot see.
CLANG  ?= $(firstword $(foreach c,clang clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14,$(shell command -v $(c))))
BPF    := $(if $(CLANG),bpf)
comma  := ,
export CLANG

# For the tests: their matrices are small, and threads of OpenBLAS and OpenMP that wait for one another cost more than the sums.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# Without bytecode files every start of a Python program compiles all of its modules again.
export PYTHONDONTWRITEBYTECODE :=

# What the command line is compiled from; Python files are used in place.
NATIVE := $(shell find core crates -name '*.rs' -o -name '*.c' -o -name '*.h' -o -name Cargo.toml) Cargo.toml Cargo.lock

.PHONY: help demo test build deps lib test-core test-lib test-rust test-python test-slow slow-core slow-python slow-rust slow-studies wheel test-wheel test-tune test-kubernetes regress test-vm kernel kernel-deb kernel-install kernel-test lint deny fuzz mutate sanitize miri kills ublk bindings sim clean tools

help:            ## list the targets
	@grep -E '^[a-z-]+: *[A-Za-z/$$ ().-]*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 24

demo: build      ## learn a three-drive array and show what admission does to its read tail
	@LINNET_SHARED=$(SHARED) $(BIN)/linnet demo --out demo-out

test: deny test-core test-lib test-rust test-python   ## every quick test: no root, no KVM, no SSD
	@echo "all tests passed"

build: $(BIN)/linnet   ## set up .venv and compile; leaves the command at .venv/bin/linnet

tools:
	@sh tools/check-tools.sh $(PYTHON)

$(VENV)/.deps: python/requirements.lock tools/uv.lock | tools
	@echo "setting up $(VENV) (once)"
	@sh tools/packages.sh $(PYTHON) $(VENV)
	@touch $@

deps: $(VENV)/.deps

$(BIN)/linnet: $(VENV)/.deps $(NATIVE) python/pyproject.toml | tools
	@echo "compiling (a few minutes the first time)"
	@. $(BIN)/activate && cd python && { maturin develop --release --features bench$(if $(BPF),$(comma)$(BPF)) --quiet >../$(VENV)/build.log 2>&1 \
		|| { cat ../$(VENV)/build.log; exit 1; }; }
	@touch $@

test-core: tools       ## the C core: golden vectors, kernel flags, clean symbols; the kernel target in user space
	@$(MAKE) --no-print-directory -C core quick
	@$(MAKE) --no-print-directory -C kernel/stub check

lib:                   ## liblinnet and linnet-load in build/lib: reads that fail over when revoked
	@$(MAKE) --no-print-directory -C lib

test-lib: tools        ## liblinnet against a stand-in for a device that revokes
	@$(MAKE) --no-print-directory -C lib check

CRATES     := --workspace --locked --quiet
LABORATORY := linnet-study linnet-bench
# `make lint` compiles the examples. `--tests` leaves out the extension, which has no Rust tests. Without BPF: observers
# need root, and `make test-tune` runs them.
test-rust:             ## every crate of the product
	@cargo test $(CRATES) --tests $(LABORATORY:%=--exclude %)

test-python: $(VENV)/.deps   ## the command line and the Python library, without linnet.studies
	@sh tools/testenv.sh $(VENV)
	@$(ONE_THREAD) build/testenv/bin/python -m pytest python/tests --ignore python/tests/studies -m "not slow"

# Its parts may run at the same time: make -j2 --output-sync=target test-slow.
test-slow: slow-core slow-python slow-rust slow-studies   ## tests that take a second or more each, those of the laboratory, every command of the documents, examples of the crates

slow-core: tools
	@$(MAKE) --no-print-directory -C core check-compilers canaries races
	@$(MAKE) --no-print-directory -C kernel/stub replay
	@$(MAKE) --no-print-directory -C kernel/stub/tune check

slow-python: build
	@$(ONE_THREAD) $(BIN)/python -m pytest python/tests --ignore python/tests/studies -m slow

slow-rust:
	@cargo test $(CRATES) --tests -- --ignored
	@cargo test --locked --quiet --tests $(LABORATORY:%=-p %)
	$(if $(BPF),@cargo test --locked --quiet --tests -p linnet-tune --features bpf)
	@cargo test $(CRATES) --doc

slow-studies: build
	@$(ONE_THREAD) $(BIN)/python -m pytest python/tests/studies

wheel: $(VENV)/.deps   ## the wheel, in dist/: what other machines install (docs/guide/install.md)
	@echo "compiling (a few minutes the first time)"
	@wheel=$$(sh tools/build-wheel.sh) && echo "$$wheel; install it with: pip install ./$$wheel, with an extra: pip install './$$wheel[serve]'"

test-wheel: build      ## the operator's wheel without extras in an empty environment: its size, its import time, what works
	@sh tools/wheel.sh

regress: build         ## accept the results of the small grid, tests/regress/results.csv: the diff is for the review
	@$(BIN)/python tests/regress/results.py --accept

test-tune: build       ## the readahead tuner on this machine's kernel: needs root, BPF, loop devices; make test-tune [CASE=name]
	@$(BIN)/python tests/tune/run.py $(CASE) || [ $$? -eq 77 ]

test-kubernetes: build ## the placement service beside a real kube-scheduler: needs Go and its modules; make test-kubernetes [CASE=name]
	@$(BIN)/python tests/kubernetes/run.py $(CASE) || [ $$? -eq 77 ]

test-vm: build         ## the kernel module on stock kernels in emulated machines: make test-vm [CASE=name] [KERNEL=6.1]
	@$(PYTHON) tests/vm/run.py $(CASE:%=--case '%') $(KERNEL:%=--kernel %) $(if $(SLOW),--slow) $(SLOWER:%=--slower %) $(if $(AGAIN),--again)

kernel:                ## the kernel modules: make kernel KDIR=/lib/modules/$$(uname -r)/build
	@$(MAKE) --no-print-directory -C kernel/dm $(if $(KDIR),KDIR=$(KDIR))
	@$(MAKE) --no-print-directory -C kernel/tune $(if $(KDIR),KDIR=$(KDIR))

kernel-deb:            ## the module as a Debian package with DKMS, build/linnet-dkms_*_all.deb
	@sh kernel/package/build-deb.sh

kernel-install:        ## the module by DKMS without a package, for the running kernel (needs root)
	@sh kernel/package/install.sh $(RELEASE) $(KDIR)

kernel-test:           ## the golden vectors as a kernel module: make kernel-test KDIR=/lib/modules/$$(uname -r)/build
	@$(MAKE) --no-print-directory -C kernel/kunit $(if $(KDIR),KDIR=$(KDIR))

lint: deps             ## formatting, lints, types, layering
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --features linnet-python/bench$(if $(BPF),$(comma)linnet-python/bpf) --locked --quiet -- -D warnings
	@$(BIN)/ruff check --quiet python bench tests && $(BIN)/ruff format --quiet --check python bench tests
	@cd python && ../$(BIN)/mypy --no-error-summary
	@$(BIN)/python tests/layering.py
	@$(BIN)/python tools/notices.py --check
	@$(BIN)/python tools/sbom.py --check
	@cargo check --manifest-path tests/fuzz/Cargo.toml --target-dir target/fuzz --quiet

deny: deps             ## licences, second versions and sources of the crates that are used: deny.toml
	@sh tools/deny.sh $(BIN)

kills: build           ## kill -9 at random moments over every command that writes: make kills [COUNT=1000] [SEED=n]
	@LINNET_KILLS=$(or $(COUNT),1000) LINNET_KILLS_SEED=$(SEED) $(BIN)/python -m pytest python/tests/test_kills.py -m slow

fuzz:                  ## damaged input for every reader, each for a time, and the lines it must reach: make fuzz [SECONDS=60 of each | HOURS=n in all] [SEED=n] [TARGET=dm] [JOBS=2]
	@$(PYTHON) tests/fuzz/run.py $(TARGET) $(if $(HOURS),--hours $(HOURS),--seconds $(or $(SECONDS),60)) --seed $(SEED) --jobs $(or $(JOBS),1)

mutate:                ## change the C core, or a crate, in one place at a time; the checks must notice: make mutate [CRATE=array | UNITS="ledger verdict" [QUICK=1] | NAMED=1] [COUNT=40] [SEED=n]
	@$(PYTHON) tests/mutation/$(if $(NAMED),named.py,$(if $(CRATE),crate.py $(CRATE),mutate.py $(UNITS) $(if $(QUICK),--quick)) --count $(or $(COUNT),40) --seed $(SEED))

sanitize:              ## Rust tests that reach the C core under AddressSanitizer, LeakSanitizer and UBSan: make sanitize [CRATES="core array"]
	@sh tests/sanitize.sh $(CRATES)

miri:                  ## Rust tests that need no C in the Miri interpreter: make miri [CRATES="measure ssd:timeline::table"]
	@sh tests/miri.sh $(CRATES)

ublk:                  ## compile the ublk front of modelled drives (needs libclang; runs on kernels with ublk_drv)
	@cargo check --manifest-path crates/ublk/Cargo.toml --all-targets --quiet

bindings:              ## compare what Rust declares of the C core with its headers (needs bindgen)
	@cargo test --manifest-path tests/bindings/Cargo.toml --locked --quiet -- --nocapture

sim: tools             ## one long random simulation of the array: make sim SEED=n
	@LINNET_SIM_SEED=$(SEED) LINNET_SIM_RUNS=200 cargo test --release --locked -p linnet-array -- --nocapture sim

clean:           ## remove what the build made (not your demo-out)
	@rm -rf $(VENV) target build dist
