# make demo: set up and audit the bundled data.  make test: set up and pass the tests.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test clean

demo: $(VENV)/.demo
	$(BIN)/epiloss demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MPLBACKEND=Agg $(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[files]'
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.demo

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
