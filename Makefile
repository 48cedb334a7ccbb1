# What CI calls too. Everything is set up in .venv and target/; Python 3.11+ and Rust are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

.PHONY: test test-rust test-python torture soak bench bench-compare bench-limits bench-scale bench-spark lint demo wheel clean \
  fuzz miri coverage interleavings mutants tsan

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --group dev click rich
	touch $@

# The engine with its assertions, for tests.
$(VENV)/engine-dev: $(VENV)/ready $(RUST_SOURCES)
	$(BIN)/maturin develop --quiet
	rm -f $(VENV)/engine-*
	touch $@

# The engine as users have it, for the demonstration and benches. PROFILE=quick where it is run and not timed.
PROFILE ?= release
OPTIMISED := $(VENV)/engine-$(PROFILE)
$(OPTIMISED): $(VENV)/ready $(RUST_SOURCES)
	$(BIN)/maturin develop --quiet --profile $(PROFILE)
	rm -f $(VENV)/engine-*
	touch $@

test: test-rust test-python

test-rust:
	cargo test --workspace --quiet

# A file's tests stay together: many share a store, or a session of Spark, that takes longer to make than to ask.
test-python: $(VENV)/engine-dev
	$(BIN)/pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# The hand-over between the engine's threads, each test under so many decisions of a scheduler, twice.
SCHEDULES ?= 40
interleavings:
	MQSTORE_SCHEDULES=$(SCHEDULES) cargo test -p mqstore-core --features shuttle --test interleavings --quiet

# The long form of the crash tests. What fails is repeated with the MQSTORE_SEED that it prints.
KILLS ?= 200
RUNS ?= 80
PAGES ?= 1000
IMAGES ?= 100
DAMAGES ?= 500
LIVES ?= 500
torture: $(VENV)/engine-dev
	MQSTORE_FLIPS=1 MQSTORE_PAGES=$(PAGES) cargo test -p mqstore-core --test damage -- --nocapture
	MQSTORE_RUNS=$(RUNS) cargo test -p mqstore-core --test crash -- --nocapture
	MQSTORE_KILLS=$(KILLS) MQSTORE_IMAGES_COUNT=$(IMAGES) $(BIN)/pytest -q --timeout=0 tests/crash
	MQSTORE_DAMAGES=$(DAMAGES) $(BIN)/pytest -q --timeout=0 tests/verify/test_random_damage.py
	MQSTORE_LIVES=$(LIVES) MQSTORE_STEPS=250 $(BIN)/pytest -q --timeout=0 tests/lives

# Any bytes against each decoder, filters, both sides of replication and recovery, FUZZ_SECONDS for each. Needs a nightly compiler
# and cargo-fuzz.
FUZZ_SECONDS ?= 60
fuzz:
	for target in $$(cargo +nightly fuzz list --fuzz-dir rust/fuzz); do \
	  mkdir -p target/fuzz/corpus/$$target && \
	  cargo +nightly fuzz run --fuzz-dir rust/fuzz --target-dir target/fuzz $$target \
	    target/fuzz/corpus/$$target rust/fuzz/corpus/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=target/fuzz/ || exit 1; \
	done

# Each change that a tool makes to this code has to fail a test; docs/mutants.md tells what is left over.
# Needs cargo-mutants. MUTANTS="--shard 0/8" or "--re recover_crashed" takes a part.
MUTATE := PROPTEST_CASES=16 PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 \
  CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 cargo mutants -p mqstore-core --no-shuffle --timeout 60
mutants:
	$(MUTATE) -o target/mutants/format -f 'rust/core/src/format/*.rs' $(MUTANTS) -- --test format -- --skip a_small_body
	$(MUTATE) -o target/mutants/recovery -f 'rust/core/src/recovery/*.rs' -f 'rust/core/src/dispatch/*.rs' \
	  -f rust/core/src/consume_queue/recover.rs -f rust/core/src/store/witness.rs -f rust/core/src/index/infer.rs \
	  -f rust/core/src/removed_queues.rs $(MUTANTS) \
	  -- --test core --test recovery --test store --test consume_queue --test index --test selection

# The engine's threads under a sanitizer that sees memory which two touch without an order between them. Needs a
# nightly compiler with rust-src.
TSAN_TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')
tsan:
	MQSTORE_SCHEDULES=100 RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target $(TSAN_TARGET) --target-dir target/tsan \
	  -p mqstore-core --test interleavings --test commit_log --test store --test core

# The codecs and the filters where every access is checked: an interpreter runs them, without files.
# What it would take hours for is left out. Needs a nightly compiler with miri.
MIRI := PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --target-dir target/miri
miri:
	$(MIRI) -p mqstore-core --test format -- --skip body:: --skip every_flipped_bit --skip a_damaged_record
	$(MIRI) -p mqstore-core --test filter -- --skip depth --skip signs_that_begin_no_comment

# Which lines and branches of the engine its own tests come to, as target/coverage/html. Needs a nightly
# compiler and cargo-llvm-cov.
coverage:
	cargo +nightly llvm-cov -p mqstore-core --branch --html --output-dir target/coverage
	cargo +nightly llvm-cov report --branch --summary-only

# The main job, end to end, on a store that Java wrote.
demo: $(OPTIMISED)
	$(BIN)/python demo/demo.py

# Puts, consumers, delays, retention and a slave at once, for ten minutes: memory flat, no lag at the end.
SOAK ?= --seconds 600
soak: $(OPTIMISED)
	$(BIN)/python -m tests.soak.soak $(SOAK)

# Benches: the codecs by criterion, the library by pytest-benchmark. SHORT=1 sees that they run, and times nothing.
bench: $(OPTIMISED)
	$(BIN)/pip install --quiet --group bench
	cargo bench --profile $(PROFILE) --package mqstore-core $(if $(SHORT),-- --test)
	$(BIN)/pytest -q benches -o python_files='bench_*.py' $(if $(SHORT),--benchmark-disable)

# On Spark, against what Spark itself can take and what one process does.
BENCH_FOLDER ?= $(or $(TMPDIR),/tmp)
bench-spark: $(OPTIMISED)
	$(BIN)/python benches/spark/source.py --folder $(BENCH_FOLDER) $(if $(SHORT),--size 0.02 --rounds 1)
	$(BIN)/python benches/spark/sink.py --folder $(BENCH_FOLDER) $(if $(SHORT),--size 0.02 --rounds 1)
	$(BIN)/python benches/spark/rebuild.py --folder $(BENCH_FOLDER) $(if $(SHORT),--sizes 0.02,--sizes 1 2 4 8)

# How costs grow with a store: with its queues, with its size, where its files come from the disk. The largest takes 25 GiB
# of the folder.
bench-scale: $(OPTIMISED)
	$(BIN)/python benches/scale/queues.py --folder $(BENCH_FOLDER) $(if $(SHORT),--queues 1 100 --messages 3200)
	$(BIN)/python benches/scale/sizes.py --folder $(BENCH_FOLDER) $(if $(SHORT),--factor 0.002)
	$(BIN)/python benches/scale/cold.py --folder $(BENCH_FOLDER) $(if $(SHORT),--messages 10000)

# mqstore and the real store side by side; docs/performance.md has a whole run.
COMPARE ?= --rounds 5
bench-compare: $(OPTIMISED)
	$(BIN)/pip install --quiet --group bench
	$(BIN)/python benches/compare/compare.py $(COMPARE)

# What calls from Python, memory, disk and asyncio allow at the best, beside mqstore.
bench-limits: $(OPTIMISED)
	cargo build --profile $(PROFILE) --quiet --package mqstore-limits --features pyo3/extension-module
	$(BIN)/python benches/limits/limits.py --folder $(BENCH_FOLDER) --library target/$(PROFILE)/liblimits.so \
	  $(if $(SHORT),--messages 10000 --rounds 1)

lint: $(VENV)/engine-dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check python tests demo benches
	$(BIN)/ruff format --check python tests demo benches
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest mqstore._native --ignore-disjoint-bases

# A wheel for every Linux since glibc 2.17 and every Python since 3.11, and the sources.
wheel: $(VENV)/ready
	$(BIN)/pip install --quiet --group wheel
	PATH="$(abspath $(BIN)):$$PATH" maturin build --release --zig --compatibility manylinux2014 --out dist
	$(BIN)/maturin sdist --out dist

clean:
	rm -rf $(VENV) target dist
