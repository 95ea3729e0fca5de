# Two commands matter: `make demo` and `make test`. Each does all its own set-up; nothing outside this folder is touched.
SHELL := /bin/bash
PYTHON ?= $(or $(shell command -v python3.11),$(shell command -v python3))
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export DS_BUILD_OPS := 0
export FT_STATE ?= $(CURDIR)/.ft/dagster
export FT_STORE ?= $(CURDIR)/.ft/store
export FT_CACHE ?= $(CURDIR)/.ft/cache
export DAGSTER_HOME := $(CURDIR)
export HF_HUB_DISABLE_TELEMETRY := 1
# Modules are compiled when they are first imported and kept: less than a third of what is installed ever is.
unexport PYTHONDONTWRITEBYTECODE
# An environment without a pip of its own is made five seconds sooner; uv then adds one, for those who type `pip`.
UV = install -q --disable-pip-version-check uv==$(UV_VERSION)
UV_BY_PYTHON = $(PYTHON) -m pip --python $(BIN)/python $(UV)
UV_BY_VENV = $(BIN)/python -m pip $(UV)
UV_INSTALL = VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/python -m uv pip install -q -c constraints.txt

.PHONY: help install demo test test-fast test-long ui serve mlflow check format docs lock sbom audit benchmark clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

install: $(VENV)/.train  ## install what training needs

demo: $(VENV)/.train  ## install, then turn real text into an adapter in production that answers, through the whole graph
	$(BIN)/ft demo $(ARGS)

ui: $(VENV)/.train  ## open Dagster on the same state, and the report pages beside it
	$(BIN)/ft ui -p $${PORT:-3000}

serve: $(VENV)/.train  ## the HTTP API in OpenAI's dialect on port 8000, and Dagster on the same state
	$(BIN)/ft serve --ui

mlflow: $(VENV)/.train  ## open MLflow on the tracking store that trainings write to
	$(BIN)/python -m ft_resources.mlflow_ui $${PORT:-5000}

# One thread in each process: with more, threads wait for those of the others, and twice the time is spent. Two of the
# four processes run only what mostly waits (`tests/sharing.py`).
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --dist loadfile --no-loadscope-reorder
test: $(VENV)/.dev  ## all tests but those of test-long; each one's time goes to build/durations.json
	$(PYTEST) -n 4 --durations-to=build/durations.json $(ARGS)

test-long: $(VENV)/.dev  ## all tests, with draws over many seeds and 500 examples of each property
	$(PYTEST) -n 4 --long --durations-to=build/durations-long.json $(ARGS)

# What a change is tried by while it is made: whoever says no need in a marker (`tests/needs.py`) has two seconds.
test-fast: $(VENV)/.dev  ## the tests that need no training, process, cluster or server: most of them, in minutes
	$(PYTEST) -n 2 --fast $(ARGS)

# mypy takes what PYTHONPATH names for libraries and hides their errors: with this folder there, those of tests/.
check: $(VENV)/.dev  ## lint, types, the architecture, and Dagster's own validation of the definitions
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && env -u PYTHONPATH $(BIN)/mypy
	mkdir -p $(FT_STATE) && PYTHONWARNINGS=ignore $(BIN)/dagster definitions validate
	$(BIN)/dg list defs --json >/dev/null && $(BIN)/dg check defs

format: $(VENV)/.dev  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

docs: $(VENV)/.dev  ## the documentation as a site, offline: build/docs/site/index.html
	$(BIN)/python -m docs.site.build

# For the image's Python and platform: each package with the digests of all its files. What `constraints.txt` pins it may
# not leave. PyTorch and CUDA's libraries stand apart, as an image for CPUs has neither.
LOCK = env -u UV_FIND_LINKS $(BIN)/python -m uv pip compile -q --no-header --no-annotate --generate-hashes \
  --python-version 3.11 --python-platform x86_64-manylinux_2_28 -c constraints.txt
LOCKS := k8s/locks

lock: $(VENV)/bin/uv  ## pin the image's packages by digest, after a change of constraints.txt
	echo torch | $(LOCK) - -o $(LOCKS)/cuda.txt
	$(LOCK) pyproject.toml --extra train --extra float8 -o $(LOCKS)/platform.txt \
	  $$(grep -oE '^(torch|triton|(cuda|nvidia)-[a-z0-9-]+)==' $(LOCKS)/cuda.txt | sed 's/^/--no-emit-package /; s/==//')
	$(LOCK) --group pyproject.toml:control -o $(LOCKS)/control.txt
	echo setuptools | $(LOCK) --no-deps - -o $(LOCKS)/build.txt
	printf '%s\n' ninja nvidia-cuda-cccl nvidia-cuda-nvcc psutil | $(LOCK) - -o $(LOCKS)/flash-attn-build.txt
	echo flash-attn | $(LOCK) --no-deps - -o $(LOCKS)/flash-attn.txt

sbom: $(VENV)/.dev  ## what the image consists of, as CycloneDX: build/sbom.json
	$(BIN)/python -m tools.sbom $(LOCKS) build/sbom.json

# Strict, as a package that could not be looked up has not been found to be safe.
audit: $(VENV)/bin/uv  ## look for known vulnerabilities of the image's packages; it asks the index's advisories
	for lock in $(LOCKS)/*.txt; do \
	  $(BIN)/python -m uv tool run pip-audit==2.10.1 --strict --disable-pip --require-hashes -r $$lock || exit 1; done

benchmark: $(VENV)/.benchmarks  ## NAME=demo, datasets, packs, trainer, gpu, gates, cluster, house, scale or server: the figures of one area
	$(BIN)/python -m benchmarks $(NAME)

clean:  ## remove the environment and everything that was made
	rm -rf $(VENV) .ft

$(VENV)/bin/uv: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "Python 3.11 or 3.12 is needed: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	$(UV_BY_PYTHON) 2>/dev/null || { $(BIN)/python -m ensurepip && $(UV_BY_VENV); }
	touch $@

# PyTorch first where an index is given for it: that index also holds outdated copies of other packages.
TORCH := $(if $(TORCH_INDEX),$(UV_INSTALL) --no-deps --index-url $(TORCH_INDEX) torch,true)

# Compiling curation's kernels takes half a minute of one core: done beside the larger downloads.
WARM = $(BIN)/python -m ft_assets.warm

$(VENV)/.train: $(VENV)/bin/uv pyproject.toml constraints.txt
	$(UV_INSTALL) pip -e .
	$(WARM) kernels & $(TORCH) && $(UV_INSTALL) -e '.[train]' && $(WARM) libraries && wait
	touch $@

$(VENV)/.dev: $(VENV)/bin/uv pyproject.toml constraints.txt
	$(UV_INSTALL) pip -e .
	$(WARM) kernels & $(TORCH) && $(UV_INSTALL) -e '.[train,dev]' && $(WARM) libraries && wait
	$(BIN)/python -m tools.helm $(VENV)/helm || echo "There is no Helm for this machine: its tests are skipped."
	touch $@ $(VENV)/.train

# The peers that figures stand beside.
$(VENV)/.benchmarks: $(VENV)/.dev
	$(UV_INSTALL) -e '.[train,dev,benchmarks]'
	touch $@
