# Everything sets itself up: `make demo` and `make test` need python3, pip and make, nothing else.
# A stamp in .venv remembers each installation; it is redone only when pyproject.toml or
# constraints.txt changes.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
# Doubly quiet: errors are still shown.
INSTALL := $(PIP) install -qq --constraint constraints.txt
ARGS ?=

# One thread per process: test workers already use the cores, and timings stay comparable.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort \
	  | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: demo
demo: $(VENV)/.core ## run the main example (installs the core only, no torch)
	@$(VENV)/bin/inweave demo $(ARGS)

.PHONY: test
test: $(VENV)/.dev ## run the whole test suite; ARGS="-k name" narrows it
	$(ONE_THREAD) $(PY) -m pytest -n 2 --dist worksteal -m "not browser" $(ARGS)

.PHONY: test-browser
test-browser: $(VENV)/.browser $(VENV)/.docs ## run the tests that need a real Chromium
	scripts/system-packages chromium
	$(ONE_THREAD) $(PY) -m pytest -m browser tests/browser $(ARGS)

.PHONY: check-js
check-js: ## check the types of the explorer's JavaScript (needs npx)
	scripts/check-js

.PHONY: check
check: $(VENV)/.dev ## lint, formatting, types, repository review
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m repo_review .

# The only torch that has a small CPU build is the one in constraints.txt; older ones run on the GPU
# machines where the GPU tests run.
.PHONY: test-lowest
test-lowest: ## run the test suite with the lowest versions that pyproject.toml allows
	@test -d $(VENV)-lowest || $(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) scripts/lowest.py torch > $(VENV)-lowest/constraints.txt
	grep '^torch==' constraints.txt >> $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install -qq --upgrade "pip>=25.1"
	$(VENV)-lowest/bin/python -m pip install -qq --constraint $(VENV)-lowest/constraints.txt \
	  --editable ".[all]" --group test
	$(ONE_THREAD) $(VENV)-lowest/bin/python -m pytest -n 2 --dist worksteal -m "not browser" $(ARGS)

# TransformerLens brings much that nothing else here needs, so it has an environment of its own.
.PHONY: test-lens
test-lens: $(VENV)-lens/.lens ## run the tests of net.to_lens() with TransformerLens
	$(ONE_THREAD) $(VENV)-lens/bin/python -m pytest tests/test_lens.py $(ARGS)

# Those that can be called by name, and those that pyenv keeps.
PYTHONS ?= python3.12 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python3)

.PHONY: test-pythons
test-pythons: ## run the core's tests with every other Python at hand; PYTHONS="python3.14" names some
	scripts/test-pythons "$(VENV)" $(PYTHONS) -- $(ARGS)

.PHONY: wheel
wheel: ## build a wheel, install it where nothing else is, and try it
	PYTHON=$(PYTHON) scripts/check-wheel

# Hours: what a change need not wait for.
.PHONY: release-check
release-check: ## all that a release must pass: CI, lowest versions, other Pythons, lens, attack, mutants, transforms
	.ci/run
	$(MAKE) test-lowest ARGS=
	$(MAKE) test-pythons ARGS=
	$(MAKE) test-lens ARGS=
	$(MAKE) attack ARGS=
	$(MAKE) mutants ARGS=
	$(MAKE) transforms ARGS=

.PHONY: format
format: $(VENV)/.dev ## rewrite the code in the project's format
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

.PHONY: attack
attack: $(VENV)/.browser ## every door tried with what is wrong; ARGS="--only commands --count 50 --seed 1"
	scripts/system-packages chromium
	$(ONE_THREAD) $(PY) -m tests.attack $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.dev ## deliberate defects, and which test notices each; ARGS="--only proof"
	$(PY) -m tests.mutants $(ARGS)

.PHONY: transforms
transforms: $(VENV)/.dev ## every gallery entry in torch.compile, torch.func and jax; ARGS="--entries pca"
	$(ONE_THREAD) $(PY) -m tests.transforms $(ARGS)

.PHONY: disguises
disguises: $(VENV)/.dev ## every gallery entry hidden and read back; ARGS="--part 1/16 --entry pca --plain"
	$(ONE_THREAD) $(PY) -m tests.disguises $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev ## measure inweave beside hand-written code
	$(ONE_THREAD) $(PY) -m benchmarks $(ARGS)

.PHONY: docs
docs: $(VENV)/.docs ## build the documentation into docs/_build/html
	$(PY) -m sphinx --fail-on-warning --keep-going docs docs/_build/html $(ARGS)

.PHONY: figures
figures: $(VENV)/.browser $(VENV)/.docs ## draw the documentation's pictures again; ARGS="--only readme"
	scripts/system-packages chromium
	$(ONE_THREAD) $(PY) -m scripts.screenshots $(ARGS)
	$(ONE_THREAD) $(PY) scripts/readme_figure.py

.PHONY: clean
clean: ## remove the environment and everything built
	rm -rf $(VENV) $(VENV)-lens build dist docs/_build .mypy_cache .pytest_cache .ruff_cache

# Dependency groups need pip 25.1 or newer, so the environment's own pip is brought up first.
$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "inweave needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ...")'
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -qq --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.core: $(VENV)/.pip pyproject.toml constraints.txt
	@echo "Installing inweave"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.pip pyproject.toml constraints.txt
	@echo "Installing inweave, every extra and the development tools (minutes, the first time only)"
	@$(INSTALL) --editable ".[all]" --group dev
	@touch $(VENV)/.core $@

$(VENV)-lens/.lens: pyproject.toml constraints.txt
	@echo "Installing inweave and TransformerLens (minutes, the first time only)"
	@$(PYTHON) -m venv $(VENV)-lens
	@$(VENV)-lens/bin/python -m pip install -qq --upgrade "pip>=25.1"
	@$(VENV)-lens/bin/python -m pip install -qq --constraint constraints.txt \
	  --editable ".[lens]" captum --group test
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	@echo "Installing the browser driver"
	@$(INSTALL) --group browser
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "Installing the documentation tools"
	@$(INSTALL) --group docs
	@touch $@
