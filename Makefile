# Virtoll's commands. `make demo` needs only Debian 12, Python 3.11, stable Rust and make; `make test` also needs Go.

PYTHON ?= python3
FUZZ_SECONDS ?= 4
# The same inputs each time; 0 for random ones, which are then kept in fuzz/corpus.
FUZZ_SEED ?= 1
# More options of cargo-mutants.
MUTANTS ?=
MUTANTS_SAMPLE ?= 200
MUTANTS_SEED ?= 1
SANITIZERS ?=
# Tree borrows and strict provenance: the models of aliasing and of pointers that Rust's own rules are to become.
MIRIFLAGS ?= -Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-strict-provenance
BIN := .venv/bin
CARGO_FLAGS := --locked
# Half of the tests wait for guests: three workers for each CPU keep all CPUs busy. Each worker takes some 400 MB.
WORKERS ?= $(shell cpus=$$(nproc); echo $$(( cpus < 3 ? 3 * cpus : 8 )))
# A worker takes one module after another, in the order that `tests/conftest.py` gives them.
SPREAD = --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
# The tests that `make test` runs: the long forms are for `test-extended` and `test-nested`.
SHORT := not nested and not extended
# When the source was committed; in a source distribution, when it was packed.
EPOCH = SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || stat --format=%Y pyproject.toml)

# Tests start Python hundreds of times: what it has compiled is kept, even where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev platforms tools tables images notebooks docs demo test test-checks lint lint-quick format test-rust test-quick test-room test-compiled test-inside test-outside timeline snapshots test-fresh test-extended test-nested agent wheel man deb licences audit advisories reproducible image fuzz sanitize miri mutants mutants-python survive verdicts bench bench-wire clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## installs and builds what is missing (packages, .venv, agent, guest image)
	@$(PYTHON) tools/setup.py

setup-dev:
	@$(PYTHON) tools/setup.py --dev

platforms: ## installs and builds what every platform that this host can hold needs
	@$(PYTHON) tools/setup.py --platforms

tools: ## builds the image with the workloads' tools too (a minute, 850 MB)
	@$(PYTHON) tools/setup.py --tools

tables: ## writes the tables of platforms and workloads into the documentation, from their classes
	@$(BIN)/python tools/tables.py

images: ## draws the pictures of the documentation again, from the runs that the package carries and made up
	@$(BIN)/python tools/images.py
	@$(BIN)/python tools/drawings.py

notebooks: ## runs the documentation's notebooks and stores what their cells answer
	@$(BIN)/python tools/notebook.py

docs: setup-dev ## makes the documentation's site in build/site; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo build/site/index.html

demo: setup ## measures what virtualisation costs on this host (at most 6 minutes)
	@$(BIN)/virtoll run quick

# Tests wait much and use less than one core each: labs run side by side, so do the tests outside them, and compilers
# and checkers run beside both. None of them is nice: beside a program that is not, it would hardly go on.
# What each says comes at its end, in one piece.
test: ## every check and every test, those with a long form in the short one; ROOM=report: the tests of that room
ifdef ROOM
	@$(MAKE) --no-print-directory setup-dev test-room
else
	@$(PYTHON) tools/setup.py --dev --only packages
	@rm -rf build/timeline; mkdir -p build/timeline
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target test-rust test-inside test-outside test-checks
endif

# What is compiled needs packages alone: the rest is set up beside it.
test-inside test-outside test-checks: setup-dev
test-inside test-outside: test-compiled

test-compiled: setup-dev
	@$(BIN)/pytest --compile-only

test-checks:
	@$(MAKE) --no-print-directory --jobs=1 lint-quick

lint: lint-quick ## all checkers; each of them votes
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings

lint-quick:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cargo fmt --all --check
	$(BIN)/python tools/audit.py

format: ## formats Python and Rust
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	cargo fmt --all

# Clippy's driver compiles as rustc does and says what `cargo clippy` says, which would compile every dependency anew.
# Properties have the same values each time, as fuzz targets have; `cargo test` alone draws others.
test-rust: ## Rust's tests, compiled by Clippy's driver; a warning is an error
	PROPTEST_RNG_SEED=1 RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings cargo test $(CARGO_FLAGS) --workspace

test-quick: ## in at most 90 s: the unit tests that a change most likely breaks
	$(BIN)/pytest --quick --numprocesses=$(WORKERS) --dist=load --maxschedchunk=4

snapshots: ## writes the texts that tests hold as a whole again; read the difference before you commit it
	$(BIN)/pytest -m "not inside" --snapshot-update $$(grep --recursive --files-with-matches --include='*.py' 'snapshot:' tests)

# No test of a room may be of one kind alone: pytest ends with 5 then.
test-room:
	$(BIN)/pytest $(SPREAD) -m "not inside and $(SHORT)" tests/$(ROOM) || test $$? -eq 5
	$(BIN)/pytest -m "inside and $(SHORT)" tests/$(ROOM) || test $$? -eq 5

test-inside:
	VIRTOLL_TEST_TIMELINE=build/timeline/inside.jsonl $(BIN)/pytest -m "inside and $(SHORT)"

test-outside:
	VIRTOLL_TEST_TIMELINE=build/timeline/outside.jsonl \
		$(BIN)/pytest $(SPREAD) -m "not inside and $(SHORT)"

timeline: ## prints where the time of the last `make test` went, and draws what ran when
	@$(BIN)/python tools/timeline.py

test-fresh: ## the README's two commands in a minimal Debian 12, and in one full of other things (root; an hour)
	@$(PYTHON) tools/fresh.py
	@$(PYTHON) tools/fresh.py --full

test-extended: setup-dev fuzz ## the long form of the suites that have one, of which CI runs the short one; and fuzzing
	$(BIN)/pytest -m "extended and not nested"

test-nested: setup-dev ## contract tests of every platform in the nested hosts (slow; CI runs none)
	$(BIN)/pytest -m "lab" tests/platforms/test_nested_guests.py tests/platforms/test_images_on_disks.py \
		tests/platforms/test_esxi.py::test_a_machine_with_e1000_forwards

agent: ## builds the agent alone
	@$(PYTHON) tools/setup.py --only agent

wheel: agent man ## builds the wheel, which carries the agent and the manual pages, into dist/
	@$(EPOCH) VIRTOLL_MAN=build/man $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls -1 dist/*.whl

man: ## writes the manual pages, from the command line's own code, into build/man
	@$(PYTHON) tools/setup.py --only venv
	@$(EPOCH) $(BIN)/python tools/manual.py

deb: wheel ## builds Debian packages of the wheel, for Debian 12 and 13, into dist/
	@$(PYTHON) tools/setup.py --dev --only venv
	@$(EPOCH) $(BIN)/python tools/deb.py

licences: ## writes crates/agent/LICENCES.txt, which the wheel carries, from Cargo's list
	@$(PYTHON) tools/licences.py

audit: setup-dev ## sources, licences and known advisories of what is locked, also by today's databases
	$(BIN)/python tools/audit.py --live

advisories: setup-dev ## writes what is known today of what is locked into advisories/ (git, PyPI, Go's proxy)
	$(BIN)/python tools/snapshot.py

reproducible: setup-dev ## builds agent and wheel twice, in two folders, and compares their digests (ten minutes)
	@$(BIN)/python tools/reproducible.py

image: ## builds the guest images alone
	@$(PYTHON) tools/setup.py --only image

# Where clang brings libFuzzer, the targets are linked with that; else its C++ is compiled, which takes about as long as the rest.
# cargo-fuzz and sanitizers need nightly features of the compiler; RUSTC_BOOTSTRAP lets a stable one offer them.
fuzz: ## each fuzz target for FUZZ_SECONDS (4); FUZZ_SEED=0 explores anew
	@cargo fuzz --version >/dev/null 2>&1 || $(PYTHON) tools/cargo_tools.py cargo-fuzz
	@set -e; library=$$(clang --print-file-name=libclang_rt.fuzzer-$$(uname -m).a 2>/dev/null || true); \
	case $$library in /*) export CUSTOM_LIBFUZZER_PATH=$$library ;; esac; \
	targets=$$(RUSTC_BOOTSTRAP=1 cargo fuzz list); test -n "$$targets"; for target in $$targets; do \
		corpus=fuzz/corpus/$$target; \
		if [ "$(FUZZ_SEED)" != 0 ]; then corpus=fuzz/target/fresh/$$target; rm -rf $$corpus; fi; \
		mkdir -p $$corpus; \
		echo "fuzz: $$target for $(FUZZ_SECONDS) s, seed $(FUZZ_SEED)"; \
		RUSTC_BOOTSTRAP=1 cargo fuzz run $$target $$corpus fuzz/seeds/$$target -- \
			-seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1; \
	done

# benches/survive has more of it: real runs with the agent built so. Without rustup's rust-src, `thread` cannot be.
sanitize: setup-dev ## all crates' tests under AddressSanitizer, LeakSanitizer and ThreadSanitizer (SANITIZERS=address: without the last)
	@$(BIN)/python benches/survive sanitizers $(SANITIZERS) --only tests

miri: ## unit tests without system calls under Miri (needs a nightly compiler with miri and rust-src)
	MIRIFLAGS="$(MIRIFLAGS)" PROPTEST_CASES=2 cargo +nightly miri test $(CARGO_FLAGS) --target-dir target/miri \
		--workspace --lib --bins

# A mutant is judged by its crate's tests that need neither root nor a network. Proptest draws the same values for each
# mutant, and looks for no smaller ones. What was caught before is not tried again: `rm -r target/mutants` begins anew.
mutants: ## mutation tests of messages, clocks and books (hours; goes on where it ended); MUTANTS='--re NAME' for some
	@cargo mutants --version >/dev/null 2>&1 || $(PYTHON) tools/cargo_tools.py cargo-mutants
	@set -e; failed=; for crate in "proto --lib --test=recorded" "clock --lib" \
		"wire --lib --test=pure" "agent --bins"; do \
		set -- $$crate; name=$$1; shift; \
		mkdir -p target/mutants/$$name; \
		PROPTEST_RNG_SEED=1 PROPTEST_CASES=48 PROPTEST_MAX_SHRINK_ITERS=0 cargo mutants --package virtoll-$$name \
			--iterate --output target/mutants/$$name $(MUTANTS) $$(printf ' --cargo-arg=%s' "$$@") || failed="$$failed $$name"; \
	done; test -z "$$failed"

mutants-python: setup-dev ## has the tests find MUTANTS_SAMPLE (200) small faults in src/virtoll, drawn by MUTANTS_SEED (1); hours
	@$(BIN)/python -m tools.mutants --sample $(MUTANTS_SAMPLE) --seed $(MUTANTS_SEED)

survive: setup-dev ## what Virtoll survives, at full length (root; hours); prints the tables of docs/reliability.md
	@$(BIN)/python benches/survive all

verdicts: setup-dev ## what verdicts promise, by simulation (twenty minutes); prints the tables of docs/statistics.md
	@$(BIN)/python benches/statements.py
	@$(BIN)/python benches/speeds.py
	@$(BIN)/python benches/verdicts.py

bench: ## the project's own benchmarks
	cargo bench $(CARGO_FLAGS) --workspace

bench-wire: agent ## generator and sink against their peers, and their exactness (root; installs the peers by apt)
	@$(PYTHON) benches/wire/bench.py

clean: ## removes what was built (runs/ and the image cache stay; see `virtoll clean`)
	rm -rf build dist target fuzz/target .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
