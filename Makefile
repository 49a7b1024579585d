# What a newcomer and a developer run. All of it works from a bare clone; `make help` lists it.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first interpreter that runs, is of a supported version and can make environments. PYTHON=... overrides.
SUPPORTED := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))
FIND_PYTHON = for each in python3.12 python3.11 python3; do $$each -c "$(SUPPORTED)" && echo $$each && break; done
PYTHON ?= $(shell ($(FIND_PYTHON)) 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help install demo test check serve format benchmark clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

install: $(STAMP)  ## make or refresh .venv; costs nothing when nothing changed

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or 3.12 with venv found: say PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Installing into $(VENV) ..."
	@$(BIN)/python -c "$(SUPPORTED)" 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --upgrade "pip>=25.1"  # the first that reads dependency groups
	@$(BIN)/python -m pip install -qq --editable . --group dev
	@touch $@

demo: install  ## build, check and serve a network with three CUDA plugins, from nothing
	@$(BIN)/python -m examples.demo

test: install  ## all tests; PLANFORGE_TEST_CASES=FOLDER adds pairs of .onnx and .npz
	$(BIN)/pytest $(ARGS)

check: install  ## formatting, lints, types, commit hooks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pre-commit validate-config

serve: install  ## the service on 127.0.0.1:8000, set by PLANFORGE_* variables
	@exec $(BIN)/planforge serve

format: install  ## rewrite what ruff can put right
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

benchmark: install  ## a build through the service against TensorRT-RTX alone
	@$(BIN)/python -m benchmarks.build

clean:  ## remove .venv and every cache, but no data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
