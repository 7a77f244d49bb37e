# make demo   a simulated learner, evaluated: app in a terminal, a table elsewhere
# make quick  unit tests of data, metrics and models: no app, no other process, 45 seconds
# make test   the tests, but what is slow and seldom breaks
# make test-all   these, then the slow ones
# make fuzz   damaged files and results for an hour on two cores, others each time
# make lint   style, types and workflows
# make bench  speed against the reference packages and torch loops
# make platforms   every system has wheels of all that is needed (asks the package index)
# make dist   wheel, sdist and add-on, the first two built twice with the same bytes
# make site   the documentation site, in build/website/html
# make man    the man page of all commands, build/man/srs-eval.1
# make licences   of what an installation brings, as a table
# make weight  what an installation by pip weighs, package by package: 700 MB at most
#
# Needs Python 3.11 or newer and make; everything else goes into .venv.

VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PLAIN := .cache/plain
# One more than two cores: tests of the app wait for what is drawn.
WORKERS ?= 3
# PyTorch for the processor alone is a tenth of the size. Empty: whatever pip chooses.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo quick test test-all fuzz lint bench dist site man platforms weight licences clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	$(BIN)/srs-eval demo

# Bytecode is kept between runs, beside the compiled kernels: tests start some hundred programs.
# A worker takes neighbouring tests, so that what a file prepares is seldom prepared twice.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.cache/python \
  $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

QUICK := tests/stats tests/test_metrics.py tests/training/test_[got]*.py \
  tests/models/test_fsrs*.py tests/models/test_models_*.py \
  tests/data/test_import.py tests/data/test_protocol.py tests/data/test_rows.py

quick: $(VENV)/installed-dev
	$(PYTEST) $(QUICK) -m "not slow and not starts_program" $(PYTEST_ARGS)

test: $(VENV)/installed-dev
	$(PYTEST) $(PYTEST_ARGS)

test-all: test
	$(PYTEST) -m slow $(PYTEST_ARGS)
	SRS_EVAL_FUZZ=10 $(PYTEST) $(FUZZED)

FUZZED := tests/data/test_import_fuzz.py tests/benchmark/test_results_fuzz.py
FUZZ ?= 800

fuzz: $(VENV)/installed-dev
	SRS_EVAL_FUZZ=$(FUZZ) $(PYTEST) $(FUZZED)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy -p tools
	cd benchmarks && MYPYPATH=.. ../$(BIN)/mypy --config-file ../pyproject.toml \
	  --cache-dir ../.mypy_cache --no-namespace-packages *.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github/workflows

bench: $(VENV)/installed-dev $(PEERS)/installed
	$(BIN)/python benchmarks/speed.py --peer-python $(PEERS)/bin/python $(BENCH_ARGS)

platforms: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet -e '.[release]'
	PATH="$(BIN):$$PATH" $(BIN)/python tools/platforms.py

dist: $(VENV)/installed-dev
	$(BIN)/python tools/build.py --out dist
	$(BIN)/python addon/build.py --out dist
	$(BIN)/python tools/checksums.py dist

site: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/python -m tools.website

man: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/python -m tools.man_page

weight: $(PLAIN)/installed
	$(BIN)/python tools/installed.py $(PLAIN)/bin/python --most 700

licences: $(PLAIN)/installed
	@$(BIN)/python tools/installed.py $(PLAIN)/bin/python --licences

$(PLAIN)/installed: pyproject.toml | $(BIN)/python
	rm -rf $(PLAIN)
	$(BIN)/python -m venv $(PLAIN)
	$(PLAIN)/bin/python -m pip install --quiet .
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(PLAIN) .cache

$(BIN)/python $(PEERS)/bin/python:
	@for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Setting up $(@D:/bin=) with $$candidate"; \
	    exec $$candidate -m venv $(@D:/bin=); \
	  fi; \
	done; \
	echo "srs-eval needs Python 3.11 or newer; none was found (name one with make PYTHON=...)." >&2; \
	exit 1

define install-torch
if [ -n "$(TORCH_INDEX)" ] && [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null; \
then $(1)/python -m pip install --quiet --retries 1 --timeout 30 -c constraints.txt --no-deps \
  --index-url $(TORCH_INDEX) torch || echo "PyTorch comes from the usual index instead."; fi
endef

# The files that decide what is installed; the stamp is newer when the work is done.
$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@$(call install-torch,$(BIN))
	@echo "Installing srs-eval and what it needs into $(VENV): about 1.5 GB, a few minutes"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[networks]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

# fsrs-optimizer needs an older pandas than srs-eval.
$(PEERS)/installed: Makefile | $(PEERS)/bin/python
	@$(call install-torch,$(PEERS)/bin)
	$(PEERS)/bin/python -m pip install --quiet 'fsrs-optimizer==6.1.6' 'pandas<3'
	@touch $@
