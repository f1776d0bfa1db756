# The front door: every target sets up what it needs. CI runs `test`, `check` and `test-slurm`, nothing else.
#
# `install` puts into .venv what the commands need; tests and checks add the rest. Where there is no GPU, torch comes without CUDA,
# from its own index. Whoever tells pip where to look (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS) gets what is there.

PYTHON ?= python3
WORKERS ?= auto
BIN := .venv/bin
TORCH := $(shell sed -n 's/^torch==\([^; ]*\).*/torch==\1/p' constraints.txt)
GPU := $(wildcard /proc/driver/nvidia/gpus/* /dev/dxg /dev/kfd)
SOURCES := $(PIP_INDEX_URL)$(PIP_EXTRA_INDEX_URL)$(PIP_FIND_LINKS)
CPU := $(if $(GPU)$(SOURCES),,--extra-index-url https://download.pytorch.org/whl/cpu)
# --no-compile: few of thousands of modules are ever imported, and are compiled then.
PIP := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

unexport PYTHONDONTWRITEBYTECODE # sources and tests are compiled once, not by every process of every run

.DEFAULT_GOAL := help
.PHONY: help install demo real test test-slurm check lint types floors links format bench bench-gpu golden same same-results mechanisms claims site clean

help: ## Print this list
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) \
	| while IFS="$$(printf '\t')" read -r target text; do printf '  make %-11s %s\n' "$$target" "$$text"; done

install: .venv/.installed ## Make .venv with the `relpos` command and what it needs; does nothing when it is up to date

.venv/.installed: pyproject.toml constraints.txt hashes.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "relpos needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not there)." \
	       "Name another one: make install PYTHON=python3.12" >&2; exit 1; }
	@test "$$(cat $@ 2>/dev/null || echo '$(CURDIR)')" = '$(CURDIR)' && $(BIN)/python -m pip --version >/dev/null 2>&1 \
	  || $(PYTHON) -m venv --clear .venv
	@echo "Installing into .venv what the commands need$(if $(GPU),,; no GPU is here: torch without CUDA, no triton)." \
	      "A minute or two the first time; make test adds what tests need" >&2
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --no-deps --requirement hashes.txt
	$(PIP) $(CPU) $(TORCH)
	$(PIP) --no-build-isolation --editable .
	@echo '$(CURDIR)' >$@

.venv/.dev: .venv/.installed hashes-dev.txt
	@echo "Installing what tests and checks need" >&2
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --no-deps --requirement hashes-dev.txt
	$(PIP) --no-build-isolation --editable ".[dev]"
	@touch $@

# Commands in .venv/bin carry the folder's path: a copied or moved tree gets a new .venv.
ifneq ($(shell cat .venv/.installed 2>/dev/null),$(CURDIR))
.PHONY: .venv/.installed
endif

.venv/.bench: .venv/.dev
	$(PIP) --no-build-isolation --editable ".[bench]"
	@touch $@

demo: install ## Pre-train, fine-tune and print a table on the embedded language, offline
	$(BIN)/relpos reproduce table=demo

real: install ## The same table on real text: RELPOS_DATA names the folder with corpus/ and glue/
	$(BIN)/relpos reproduce table=real_mini

test: .venv/.dev ## Run the tests (WORKERS=1 for one process, ARGS=--random-order for another order)
	$(PYTEST) -n $(WORKERS) --maxprocesses 4 --dist worksteal $(ARGS)

test-slurm: .venv/.dev ## Run tables on a Slurm cluster of two nodes, started for it (Debian, root; elsewhere it skips)
	@tests/slurm/run

check: lint types floors links ## Format, lint, types, import floors, links in the docs

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.dev
	$(BIN)/mypy src benchmarks

floors: .venv/.dev
	$(BIN)/lint-imports --no-logo

links: .venv/.dev
	$(BIN)/python tests/packaging/links.py

format: .venv/.dev ## Let ruff reformat the tree and fix what it can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: .venv/.bench ## Run benchmarks/*.py, one after another; leave the machine alone meanwhile
	@set -e; for script in $(filter-out benchmarks/_% benchmarks/gpu%,$(sort $(wildcard benchmarks/*.py))); do \
	  echo "$$script" >&2; $(BIN)/python $$script; done
	$(BIN)/python benchmarks/step.py --size base
	$(BIN)/python benchmarks/step_presets.py --size base --repeats 2

bench-gpu: .venv/.bench ## The same on a GPU (benchmarks/gpu.py); refuses without CUDA
	$(BIN)/python benchmarks/gpu.py

golden: .venv/.dev ## Write the golden values anew, where results were meant to change
	PYTHONPATH=tests $(BIN)/python tests/golden.py

same: .venv/.dev ## Train every preset a few steps here and at BASE=COMMIT, and say where the losses differ
	@$(BIN)/python tests/same.py $(BASE)

same-results: .venv/.dev ## Read the committed records here and at BASE=COMMIT, and say which figures and verdicts differ
	@PYTHONPATH=tests $(BIN)/python tests/same_results.py $(BASE)

mechanisms: .venv/.dev ## Write the tables and the figure of docs/mechanisms.md anew; train new schemes for their pictures on the site
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/site/trained.py
	$(BIN)/python docs/patterns.py

claims: install ## Write docs/claims.md anew, from the committed records
	$(BIN)/python docs/claims_page.py

site: .venv/.site ## Make the site in build/site: guide, findings, claims, mechanisms with pictures, API reference; offline
	@$(BIN)/python docs/site/build.py

.venv/.site: .venv/.dev
	$(PIP) --no-build-isolation --editable ".[site]"
	@touch $@

clean: ## Remove .venv and caches; runs stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
