# Each target prepares what it needs: .venv (Python) and build/node (the programs of others that
# the tests compare with). See CONTRIBUTING.md.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST_ARGS ?=
SWEEP_ARGS ?=
DEMO := build/demo
# Without bytecode on disk, each process compiles the modules that it imports, for half a second.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo demo-web test test-all fuzz slow-streams soak fuzz-fields test-cuda test-vulkan sweep-cuda sweep-vulkan lint format unit bench bench-cuda bench-vulkan docs clean

help:
	@echo "make demo    prove and verify the example, with visible progress"
	@echo "make demo-web  a page that proves the example in the browser, served on this machine"
	@echo "make test    lint, type check and the tests but thorough ones"
	@echo "make test-all  the same with thorough tests, a browser, and unchanged kernels"
	@echo "make fuzz    a million damaged inputs for every parser"
	@echo "make slow-streams  tests with work beside its caller late, unwritten memory filled, and orders checked"
	@echo "make soak    a million mutated proofs of a layered circuit, the queue killed for ten minutes, and the service for 10,000 jobs"
	@echo "make fuzz-fields  operations of fields on limbs as large as their bounds allow"
	@echo "make test-cuda   what runs on an NVIDIA GPU, on the one of this machine"
	@echo "make test-vulkan  what runs through WebGPU, on the GPU of this machine"
	@echo "make sweep-cuda  random sizes on the NVIDIA GPU of this machine, for seven minutes"
	@echo "make sweep-vulkan  the same through WebGPU, for three"
	@echo "make lint    ruff, mypy, import contracts, duplicated code, and words of code and pages"
	@echo "make format  format and fix Python with ruff, and wrap Markdown pages"
	@echo "make bench   measure, and record the figures in benchmarks/results"
	@echo "make bench-cuda  the same on the NVIDIA GPU of this machine"
	@echo "make bench-vulkan  the same through WebGPU"
	@echo "make docs    write the generated pages again"
	@echo "make clean   remove build outputs and environments"

$(VENV)/.run: pyproject.toml constraints.txt tools/setup.sh
	tools/setup.sh python run
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt tools/setup.sh
	tools/setup.sh python dev
	@touch $@ $(VENV)/.run

build/node/.installed: tools/setup.sh
	tools/setup.sh node
	@touch $@

demo: $(VENV)/.run
	@mkdir -p $(DEMO)
	$(BIN)/quod inspect examples/membership/circuit.zkey
	$(BIN)/quod groth16 prove examples/membership/circuit.zkey examples/membership/witness.wtns $(DEMO)/proof.json $(DEMO)/public.json --timings
	$(BIN)/quod groth16 verify examples/membership/verification_key.json $(DEMO)/public.json $(DEMO)/proof.json

demo-web: $(VENV)/.run
	$(BIN)/quod export-web examples/membership/circuit.zkey --wasm examples/membership/circuit.wasm --sym examples/membership/circuit.sym --input examples/membership/input.json --name Membership --out build/site --serve

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.duplicates
	$(BIN)/python -m tools.words

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tools.wrap

unit: export QUOD_TEST_NODE := required
unit: export QUOD_TEST_WEBGPU := required
unit: export QUOD_TEST_DRIVERS := required
unit: export QUOD_TEST_BROWSER := required
unit: export QUOD_TEST_POSTGRES := required
unit: export QUOD_TEST_ARM := required
unit: $(VENV)/.dev build/node/.installed
	tools/setup.sh webgpu
	tools/setup.sh postgres
	tools/setup.sh arm
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# The type check runs on one core, beside the set-up and the tests.
test: $(VENV)/.dev
	$(MAKE) -j2 lint unit

test-all: export QUOD_TEST := all
test-all: test

fuzz: $(VENV)/.dev
	$(BIN)/python -m tools.fuzz --inputs 1000000 --jobs $(WORKERS) $(FUZZ_ARGS)

slow-streams: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -p tests.support.slow_streams \
	    tests/gkr tests/lookup tests/commitment tests/sumcheck tests/groth16 $(PYTEST_ARGS)

soak: $(VENV)/.dev
	$(BIN)/python -m tools.soak --proofs 1000000 $(FUZZ_ARGS)
	tools/setup.sh postgres
	$(BIN)/python -m tools.soak_queue --seconds 600 $(FUZZ_ARGS)
	$(BIN)/python -m tools.soak_service --jobs 10000 $(FUZZ_ARGS)

fuzz-fields: $(VENV)/.dev
	$(BIN)/python -m tools.field_bounds --cases 100 $(FUZZ_ARGS)

# These take a Python that has what the tests need as PYTHON, where there is no registry.
test-cuda: PYTHON ?= $(BIN)/python
test-cuda:
	QUOD_TEST=all QUOD_TEST_CUDA=required $(PYTHON) -m pytest -k cuda $(PYTEST_ARGS)

test-vulkan: PYTHON ?= $(BIN)/python
test-vulkan:
	QUOD_TEST=all QUOD_TEST_WEBGPU=required $(PYTHON) -m pytest -k webgpu $(PYTEST_ARGS)

sweep-cuda: PYTHON ?= $(BIN)/python
sweep-cuda:
	$(PYTHON) -m tools.sweep --device cuda --seconds 420 --table $(SWEEP_ARGS)

sweep-vulkan: PYTHON ?= $(BIN)/python
sweep-vulkan:
	$(PYTHON) -m tools.sweep --device webgpu --seconds 180 --table $(SWEEP_ARGS)

bench-cuda: PYTHON ?= $(BIN)/python
bench-cuda:
	$(PYTHON) benchmarks/run.py --device cuda

bench-vulkan: PYTHON ?= $(BIN)/python
bench-vulkan:
	$(PYTHON) benchmarks/run.py --device webgpu

bench: $(VENV)/.dev build/node/.installed
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev
	$(BIN)/python benchmarks/report.py

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
