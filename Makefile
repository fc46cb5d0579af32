# make demo: set up and audit the bundled data.  make test: set up and pass the tests.
# make test-slow: the statistical and other long checks.
# make bench: how fast it is, into docs/speed.md and the README, and how good its trees are (half an hour;
#   on a quiet machine with two cores; EXTRAS=,peers has LightGBM for the yardstick).
# make studies: the paper's studies on real networks and data, into docs/studies (half an hour, once).
# make docs: the site, into docs/_build/html; every example runs, and warnings are errors.
# make test EXTRAS=,studies,peers,engines,integrations: also the tests that need heavy packages.
# make logs: the tests on logs that lm-evaluation-harness and Inspect write, in an environment of their own.
# make lowest: the lowest versions that pyproject.toml allows, and some of the tests with them.
# make dist: build the sdist and the wheel, and run the demo from each.
PYTHON ?= python3
EXTRAS ?=
VENV ?= .venv
BIN = $(VENV)/bin
KERNEL = setup.py $(addprefix src/epiloss/_kernels/, _kernel.c _trees.c _passes.c _boost.c _kernel.h)
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test types fast-tests test-slow bench studies docs clean

demo: $(VENV)/.demo
	$(BIN)/epiloss demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory -j 2 types fast-tests

# Types are checked beside the tests, some of which wait for other processes.
types: $(VENV)/.test
	$(BIN)/mypy

fast-tests: $(VENV)/.test
	MPLBACKEND=Agg $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow" $(PYTEST_ARGS)

test-slow: $(VENV)/.test
	MPLBACKEND=Agg $(BIN)/python -m pytest -n auto --dist worksteal -m slow $(PYTEST_ARGS)

bench: $(VENV)/.test
	$(BIN)/python benchmarks/speed.py --markdown docs/speed.md --readme README.md
	$(BIN)/python benchmarks/quality.py

studies: $(VENV)/.studies
	MPLBACKEND=Agg $(BIN)/python experiments/studies.py

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

$(VENV)/.demo: pyproject.toml $(KERNEL) | $(VENV)/bin/python
	$(PIP) --editable '.[files]'
	touch $@

$(VENV)/.test: pyproject.toml $(KERNEL) | $(VENV)/bin/python
	$(PIP) --editable '.[test$(EXTRAS)]'
	touch $@ $(VENV)/.demo

$(VENV)/.studies: pyproject.toml $(KERNEL) | $(VENV)/bin/python
	$(PIP) --editable '.[studies]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml $(KERNEL) | $(VENV)/bin/python
	$(PIP) --editable '.[docs]'
	touch $@ $(VENV)/.demo

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist docs/_build docs/examples docs/generated .pytest_cache .mypy_cache src/epiloss/_kernels/*.so .ruff_cache .hypothesis

# before a release: see RELEASING.md
.PHONY: lowest logs dist clean-lowest
lowest:
	scripts/test_lowest.sh

logs:
	PYTHON=$(PYTHON) scripts/test_logs.sh

dist:
	PYTHON=$(PYTHON) scripts/check_build.sh

clean: clean-lowest
clean-lowest:
	rm -rf .venv-lowest .venv-logs
