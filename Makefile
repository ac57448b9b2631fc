# make study   the environment, the default study, the paper; another study: make study CONFIG=my.yaml
# make test    the environment, every test
# Both set up what is missing and nothing else.
# make test-cluster   studies through a Slurm that is started on this machine for them (Debian, root or sudo)

PYTHON ?= python3
CORES ?= all
CONFIG ?= config/config.yaml
BIN := .venv/bin

.PHONY: study test test-cluster check format lock latex
.DEFAULT_GOAL := study

# The environment is made under its final name last, so that an interrupted set-up is never taken for a finished one.
.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "halfscale needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	rm -f $@
	$(PYTHON) -m venv .venv
	@echo "Installing the environment into .venv: some minutes, PyTorch is large ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

latex:
	@sh workflow/scripts/get_latex.sh

study: .venv/ready latex
	@sh workflow/scripts/study.sh $(BIN) $(CORES) "$(CONFIG)"

test: .venv/ready latex
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

test-cluster: .venv/ready
	@tests/cluster/run.sh $(BIN)/python

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/snakemake --lint

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile workflow

# The pins hold torch and torchvision together; everything else is the newest that fits.
lock:
	uv pip compile --universal --python-version 3.11 --extra dev --no-annotate --custom-compile-command "make lock" \
		--constraint constraints.txt pyproject.toml --output-file requirements.lock
