# Every command runs in .venv, which is made from pyproject.toml when it is missing or out of date.
PYTHON ?= python3
JOBS ?= auto
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check docs bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/.installed  ## fit eight models to real data on every backend, and draw them into build/
	@$(BIN)/python examples/oring.py
	@echo
	@$(BIN)/python examples/oring_posterior.py
	@echo
	@$(BIN)/python examples/nile.py
	@echo
	@$(BIN)/python examples/sunspots.py
	@echo
	@$(BIN)/python examples/digits.py
	@echo
	@$(BIN)/python examples/packed.py
	@echo
	@$(BIN)/python examples/earthquakes.py
	@echo
	@$(BIN)/python examples/sunspot_cycle.py

test: .venv/.installed  ## run every test and every example of the documentation
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

check: .venv/.installed  ## format, lint, types, layers, dead code, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture
	@$(MAKE) --no-print-directory docs

docs: .venv/.installed  ## build the documentation into build/docs; a warning is an error
	$(BIN)/python docs/tables.py
	$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees docs build/docs

bench: .venv/.installed  ## print graphc's times beside those of JAX and MLX written by hand
	@$(BIN)/python -m benchmarks

clean:  ## remove what the other targets made, .venv too
	rm -rf .venv build *.egg-info .benchmarks .coverage .coverage.* .hypothesis htmlcov
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml
	@echo "Installing graphc and its tools into .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[mlx,test,docs,bench,demo,dev]'
	@touch $@
