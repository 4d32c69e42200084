# make demo   train a small CLIP on noisy scenes and write its report (5 minutes on two cores)
# make test   lint, types and tests: under 8 minutes on two cores
# make test-all     the same with the slow tests: every recipe, kills, several processes
# make test-random  the tests in another order; SEED=n repeats one
# make lint   lint and types only
# Each creates .venv on first use and is quick after that. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
SEED := $(shell date +%s)

.PHONY: demo test quick test-all test-random lint clean

demo: $(VENV)/.equipoise
	$(BIN)/equipoise demo

test: $(VENV)/.equipoise-test
	$(MAKE) --no-print-directory --jobs 2 lint quick  # types take a core for a minute; the tests have the other meanwhile

quick: $(VENV)/.equipoise-test
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

test-random: lint
	@echo "in the order of SEED=$(SEED)"
	$(PYTEST) -m "not slow" --shuffle $(SEED)

lint: $(VENV)/.equipoise-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.equipoise: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[tensorboard,shards]'
	touch $@

$(VENV)/.equipoise-test: $(VENV)/.equipoise
	$(PIP) --editable '.[test]'
	touch $@
