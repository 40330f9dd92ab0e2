# Needs Python >= 3.11 with venv, and make; everything else is installed into .venv, once.
#   make bench                    make test                    make WHEELS=folder bench    (no network)
.DEFAULT_GOAL := help
PYTHON ?= python3
WHEELS ?=
export PYTHON WHEELS

STAMP := .venv/installed
BIN := .venv/bin

.PHONY: help install bench baseline test test-slow lint format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

install: $(STAMP) ## make .venv, with the versions that suit the NVIDIA driver

$(STAMP): pyproject.toml constraints-cu13.txt constraints-cu12.txt scripts/install.sh
	@scripts/install.sh
	@touch $(STAMP)

bench: $(STAMP) ## a quick benchmark of all GPUs, or of two CPU devices where there is no NVIDIA driver
	@if command -v nvidia-smi >/dev/null 2>&1 || [ -e /proc/driver/nvidia/version ]; then \
		set -- --gpu-ids all; \
	else \
		echo "No NVIDIA driver: measuring three models on two CPU devices."; \
		set -- --gpu-ids cpu:0,cpu:1 -m bert-base,resnet50,lstm --phases load,inference,training -b 1 -p fp32; \
	fi; \
	$(BIN)/python -m orchestrator "$$@" --profile quick

baseline: $(STAMP) ## a checked baseline of these GPUs: make baseline NAME=h200-141gb-bf16 [OPTIONS="-p bf16"]
	@scripts/baseline.sh "$(NAME)" $(OPTIONS)

test: $(STAMP) ## every test that this machine can run, but the slow ones; ruff and mypy
	@scripts/test.sh

test-slow: $(STAMP) ## the slow tests: kills at random moments and others, and properties with more examples
	@unset PYTHONDONTWRITEBYTECODE; \
		$(BIN)/python -m pytest -m '(slow or hypothesis) and not alone' --hypothesis-profile full \
		--numprocesses $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder; beside=$$?; \
		$(BIN)/python -m pytest -m alone --numprocesses 2 --dist worksteal $$(grep -rl --include='*.py' 'mark\.alone' tests); alone=$$?; exit $$((beside > alone ? beside : alone))

lint: $(STAMP) ## ruff and mypy
	@failed=; for tool in 'ruff check .' 'ruff format --check .' mypy; do $(BIN)/$$tool || failed="$$failed, $$tool"; done; \
		[ -z "$$failed" ] || { echo "failed: $${failed#, }"; exit 1; }

format: $(STAMP) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean: ## remove .venv and what tools left behind; runs and reports stay
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
