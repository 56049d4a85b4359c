# Every command runs in VENV, which is made from pyproject.toml when it is missing or out of date.
PYTHON ?= python3
JOBS ?= auto
N ?= 1000
SEED ?= 1000000
ONE_IN ?= 1
DEVICE ?= gpu
VENV := .venv
EXTRAS := mlx,test,docs,bench,demo,dev,pymc
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# One for each part of graphc: gradients, loops, implicit arrays, attention.
DEMO := oring nile digits packed
EXAMPLES := nile_exported oring_posterior sunspots sunspot_cycle earthquakes earthquakes_posterior \
	language_model distributed
RUN = for name in $(1); do printf '\n%s\n' "examples/$$name.py" && $(BIN)/python examples/$$name.py || exit; done

# Each worker and each process that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo examples test fuzz fuzz-pytensor test-all test-part test-newest test-clients \
	test-gpu check docs bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed  ## fit four models to real data on every backend, in a minute and a half
	@echo "Four models, fitted to real data on every backend: a minute or two on two cores."
	@$(call RUN,$(DEMO))

examples: $(VENV)/.installed  ## run all twelve examples, in five minutes; seven draw into build/
	@$(call RUN,$(DEMO) $(EXAMPLES))

test: $(VENV)/.installed  ## run the tests and every example of the documentation, in ten minutes
	@$(PYTEST) -m "not exhaustive"
	@JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(PYTEST) -m optimized tests/contract

fuzz: $(VENV)/.installed  ## run N random programs, from seed SEED on, on every backend
	@GRAPHC_CACHE_DIR=off JAX_DISABLE_MOST_OPTIMIZATIONS=1 \
		$(BIN)/python -m tests.fuzz -n $(N) --seed $(SEED)

fuzz-pytensor: $(VENV)/.installed  ## run N random graphs of PyTensor, from seed SEED on
	@GRAPHC_CACHE_DIR=off $(BIN)/python -m tests.interop.pytensor -n $(N) --seed $(SEED)

test-all: $(VENV)/.installed  ## run what `make test` leaves out: whole tables, long fuzzing, C++ kernels
	@$(PYTEST) -m exhaustive --one-in $(ONE_IN)

test-part: $(VENV)/.installed  ## run what a release of Python, JAX or PyMC may break, in five minutes
	@$(BIN)/python -m graphc doctor | grep -E '^(python|packages) '
	@$(PYTEST) -m "not exhaustive" tests/capture tests/interop tests/loop/test_unpacking.py \
		tests/test_site.py
	@$(PYTEST) -m "not exhaustive" --one-in 5 tests/compile tests/contract
	@$(PYTEST) -m exhaustive --one-in 4 tests/interop

test-gpu: $(VENV)/.installed  ## run what a GPU may break on it, in ten minutes; on a CPU with DEVICE=cpu
	@XLA_PYTHON_CLIENT_PREALLOCATE=false JAX_DISABLE_MOST_OPTIMIZATIONS=$(if $(filter cpu,$(DEVICE)),1,0) \
		$(PYTEST) -m "gpu and not exhaustive" --device $(DEVICE) -rs tests

test-newest: $(VENV)/.installed  ## run test-part on the newest Python of this machine
	@.ci/test-newest $(BIN)/python

test-clients:  ## run tests of pymc-extras, all modes being graphc's; PYTHON=python3.12 or newer
	@ONE_IN=$(ONE_IN) .ci/test-clients $(PYTHON)

check: $(VENV)/.installed  ## format, lint, types, layers, dead code, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture
	@$(MAKE) --no-print-directory docs

docs: $(VENV)/.installed  ## build the documentation into build/docs; a warning is an error
	$(BIN)/python docs/tables.py
	$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees docs build/docs

bench: $(VENV)/.installed  ## print graphc's times beside those of JAX and MLX written by hand
	@$(BIN)/python -m benchmarks

clean:  ## remove what the other targets made, .venv too
	rm -rf .venv .venv-* build *.egg-info .benchmarks .coverage .coverage.* .hypothesis htmlcov
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml
	@echo "Installing graphc and its tools into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@
