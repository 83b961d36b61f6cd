# Every target sets up what it needs in a virtual environment of its own; only Python 3.11 or
# newer and make have to be there.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Without the compiled code of modules each process of the tests starts half a second later.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-core test-oldest run-oldest release-check lint check docs gallery bench paper clean

help:
	@echo "make demo        the main job on real data: a scan of a table, and a training under a constraint"
	@echo "make test        the tests"
	@echo "make test-all    the tests, larger versions of some, short runs of benchmarks"
	@echo "make test-core   the tests of the core: make test-core PYTHON=python3.13 VENV=.venv313"
	@echo "make test-oldest part of the tests, with the oldest releases that pyproject.toml allows"
	@echo "make release-check  sdist and wheel of the last commit, tried in each Python at hand"
	@echo "make lint        format, lint and types"
	@echo "make check       lint and the tests"
	@echo "make docs        the documentation: docs/_build/html/index.html"
	@echo "make gallery     the pictures of the documentation's gallery"
	@echo "make bench       measure speed and accuracy, keep the tables in bench/README.md"
	@echo "make paper       the experiments of the paper: figures and their data"
	@echo "make clean       remove the virtual environment and caches"

demo: $(VENV)/ready-demo
	$(BIN)/hgr-jax demo --force # overwrite earlier results

# Most of the time of the tests is compilation, which takes half as long without optimisation;
# `make test-all` and `make test-core` compile as users do.  Products of two processes on two cores
# take longer with two threads each than with one.
QUICK := --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1
QUICK_BEFORE_0_10 := --xla_cpu_use_fusion_emitters=false
QUICK_FLAGS := import jax; print("$(QUICK)", "$(QUICK_BEFORE_0_10)" * (jax.__version_info__ < (0, 10)))

test: $(VENV)/ready-dev
	XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python -c '$(QUICK_FLAGS)')}" OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: $(VENV)/ready-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

CORE_TESTS := tests/test_solvers.py tests/test_orthogonal.py tests/test_kb.py

# The heart of the package, with what it needs only: for a second version of Python and of jax.
test-core: $(VENV)/ready-core
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(CORE_TESTS)

release-check: $(VENV)/ready-dev
	$(BIN)/python .ci/release.py $(CORE_TESTS)

# Each room once, with exactly the least release that is declared of each direct dependency: a bound
# that nobody has tried is a guess.  Afresh each time, beside the other environment.
test-oldest:
	rm -rf $(VENV)-oldest
	$(MAKE) VENV=$(VENV)-oldest run-oldest

# Old releases warn of newer ones below them.
run-oldest: $(VENV)/ready-oldest
	XLA_FLAGS="$(QUICK) $(QUICK_BEFORE_0_10)" $(BIN)/python -m pytest -n 2 --dist loadfile \
	  -m "not slow" -W ignore::DeprecationWarning \
	  tests/test_kb.py tests/test_solvers.py tests/test_scan.py \
	  tests/test_scan_archive.py tests/test_tables_formats.py tests/test_plotting.py \
	  tests/test_fairness_training.py tests/test_fairness_estimators.py \
	  tests/test_cli_reading.py tests/test_cli_outputs.py

lint: $(VENV)/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

# Afresh each time: pages of names and notebooks that are gone would stay.
docs: $(VENV)/ready-dev
	rm -rf docs/_build
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/ready-dev
	$(BIN)/python -m bench.accuracy --write
	$(BIN)/python -m bench.truth --write
	$(BIN)/python -m bench.shapes --write
	$(BIN)/python -m bench.first_use --write
	$(BIN)/python -m bench.pair --write
	$(BIN)/python -m bench.measures --write
	$(BIN)/python -m bench.scan --write
	$(BIN)/python -m bench.scale --write
	$(BIN)/python -m bench.calibration --write
	$(BIN)/python -m bench.power --write
	$(BIN)/python -m bench.conditional --write
	$(BIN)/python -m bench.training --write
	$(BIN)/python -m bench.coverage --write
	$(BIN)/python -m bench.fairness --write
	$(BIN)/python -m bench.guarantee --write
	$(BIN)/python -m bench.figures

gallery: $(VENV)/ready-dev
	for script in docs/gallery/*.py; do PYTHONPATH=. $(BIN)/python $$script || exit 1; done

paper: $(VENV)/ready-dev
	$(BIN)/python -m bench.paper all
	$(BIN)/python -m bench.figures

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/ready-demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[cli]'
	@touch $@

$(VENV)/ready-core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

OLD := data test

$(VENV)/ready-oldest: pyproject.toml .ci/oldest.py | $(VENV)/bin/python
	$(BIN)/python .ci/oldest.py $(OLD) > $(VENV)/oldest.txt
	$(BIN)/python -m pip install --quiet --constraint $(VENV)/oldest.txt \
	  --editable '.[$(shell echo $(OLD) | tr " " ,)]'
	@touch $@

# DoWhy would put an old SciPy under all tests; its falsification of graphs runs with the new one.
$(VENV)/ready-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps 'dowhy==0.14; python_version < "3.14"'
	@touch $@
