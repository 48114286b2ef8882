# Two commands do nearly everything: `make book` and `make test`. `make help` lists the rest.

PYTHON ?= python3
PORT ?= 8000
export CONFORMANCE ?=
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/installed
PYTHON_NEEDED := $(shell sed -n 's/^requires-python = ">=\([0-9.]*\)"/\1/p' pyproject.toml)
SITE := _build/html
ARCHIVE := _build/attention-number-by-number.zip
# What the tests say is kept here: the page on the book's health is made from it.
REPORTS := _build/reports

# One thread: on few cores several kernels at once are faster so, and sums come out alike on every machine.
export OMP_NUM_THREADS := 1
# Kernels, settings and extensions of this environment only: a kernel of the same name elsewhere on the machine is never taken.
export JUPYTER_PREFER_ENV_PATH := 1
export PYTHONNOUSERSITE := 1

.PHONY: help book serve archive test unit notebooks site conformance bench store clean

help:
	@echo "make book         build the site into $(SITE) (the first time it also installs what it needs into $(VENV))"
	@echo "make serve        build, then serve the site on http://localhost:$(PORT) (PORT=... for another)"
	@echo "make archive      build, then pack the site into $(ARCHIVE), to be read without a network"
	@echo "make test         unit tests, every notebook run again, the site built and checked"
	@echo "make unit         only the unit tests"
	@echo "make notebooks    only run every notebook again and compare with what is stored"
	@echo "make site         only build the site and check it"
	@echo "make conformance  the library against ONNX, JAX, transformers and PyTorch (installs them first: some 700 MB)"
	@echo "make bench        speed and memory against other libraries, about a quarter of an hour (BENCH=--help lists options)"
	@echo "make store        run every notebook again and store what it shows"
	@echo "make clean        delete $(VENV) and what was built"

$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found: install Python $(PYTHON_NEEDED) or newer, or name one: make PYTHON=/path/to/python3 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(PYTHON_NEEDED)".split("."))))' || { echo "make: Python $(PYTHON_NEEDED) or newer is needed, and $(PYTHON) is $$($(PYTHON) -V 2>&1): name another, make PYTHON=python$(PYTHON_NEEDED) ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv module: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	@echo "Installing into $(VENV): once, some minutes."
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -c constraints.txt -e ".[book,test]"
	@touch $@

# Extras on top, each installed where it is asked for: $(VENV)/conformance, $(VENV)/bench.
$(VENV)/conformance $(VENV)/bench: $(INSTALLED)
	$(PY) -m pip install -c constraints.txt -e ".[$(notdir $@)]"
	@touch $@

book: $(INSTALLED)
	$(VENV)/bin/jupyter-book build . -W -n --keep-going
	@test -f $(SITE)/index.html
	@echo "Open $(abspath $(SITE))/index.html"

serve: book
	@echo "http://localhost:$(PORT) (Ctrl+C ends it)"
	$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory $(SITE)

archive: book
	$(PY) book/scripts/archive.py $(SITE) $(ARCHIVE)

test: unit notebooks site

# Each file of tests, and each notebook, stays with one worker: a kernel then serves all cells of its notebook.
PARALLEL := -n 2 --dist loadfile

# CONFORMANCE=all: nothing that the library can be held against may be missing. CI tests so.
unit: $(INSTALLED) $(if $(filter all,$(CONFORMANCE)),$(VENV)/conformance)
	$(PY) -m pytest $(PARALLEL) --junit-xml=$(REPORTS)/unit.xml tests --ignore=tests/site

notebooks: $(INSTALLED)
	$(PY) -m pytest --nbval --nbval-current-env --nbval-cell-timeout=300 $(PARALLEL) --junit-xml=$(REPORTS)/notebooks.xml notebooks

conformance: $(VENV)/conformance
	CONFORMANCE=all $(PY) -m pytest $(PARALLEL) tests/conformance

bench: $(VENV)/bench
	$(PY) -m benchmarks $(BENCH)

site: book
	BOOK_SITE=$(SITE) $(PY) -m pytest -n 2 --dist worksteal --junit-xml=$(REPORTS)/site.xml tests/site

store: $(INSTALLED)
	$(PY) book/scripts/store_outputs.py

clean:
	rm -rf $(VENV) _build build attn_lib.egg-info
