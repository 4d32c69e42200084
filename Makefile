# make demo   train a small CLIP on noisy scenes and write its report (5 minutes on two cores)
# make test   the tests: under 8 minutes on two cores
# make lint   lint and types: a minute and a half
# make test-all     both, with the slow tests: every recipe, kills, several processes
# make test-random  the tests in another order; SEED=n repeats one
# Each creates .venv on first use and is quick after that. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
LOCKED := $(PIP) --require-hashes --no-deps --requirement
TORCH := $(PIP) --constraint constraints.txt torch # no hashes: each kind of accelerator has a build of its own
TREE := $(PIP) --no-deps --no-build-isolation --editable .

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
SEED := $(shell date +%s)

.PHONY: demo test test-all test-random lint clean

demo: $(VENV)/.equipoise
	$(BIN)/equipoise demo

test: $(VENV)/.equipoise-test
	$(PYTEST) -m "not slow" --durations 12

test-all: lint
	$(PYTEST)

test-random: $(VENV)/.equipoise-test
	@echo "in the order of SEED=$(SEED)"
	$(PYTEST) -m "not slow" --shuffle $(SEED)

lint: $(VENV)/.equipoise-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.equipoise: pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(LOCKED) requirements.lock
	$(TORCH)
	$(TREE)
	touch $@

$(VENV)/.equipoise-test: $(VENV)/.equipoise requirements-test.lock
	$(LOCKED) requirements-test.lock
	touch $@
