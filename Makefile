# Every target sets up what it needs by itself: Python 3.11 or newer is all that has to be there. `make demo` runs in the
# active environment if the package with its extra `train` works there.
#
#   make demo         train, save, reload and ask a tiny model, in about three minutes
#   make test         the test suite, offline; `make test ARGS="-k cool"` for a part of it
#   make mutants      break the package in 150 places, one at a time, and count what the tests notice
#   make lint         ruff (format and rules), mypy and codespell
#   make test-floors  the suite with the lowest versions that setup.cfg allows
#   make test-newest  the suite with the newest versions of everything, torch included, and a list of their deprecations
#   make test-versions  what one environment saves, loaded without the package by the others: floors, usual, newest
#   make coverage     the tests of the model classes, which have to run 95 % of the lines of hf_localattn/models
#   make test-common  transformers' own tests of its models, on every class of every family
#   make test-browser the demo page in a headless Chromium, which has to be installed (`apt-get install chromium`)
#   make test-consumers  the programs of docs/consumers.md, with the libraries that they use
#   make test-kernels the tests of the Triton kernels, run in Python on the CPU by triton's interpreter
#   make docs         the documentation site, in site/, and its tests: no broken link, no undocumented public name
#   make docs-serve   the site at http://127.0.0.1:8000, built anew when a page changes
#   make benchmark    the benchmarks, with results as data
#   make wheel        the wheel, in dist/: the same bytes for the same commit
#   make constraints  write constraints.txt anew, from the newest versions
#   make clean        remove everything that these targets make
#
# Another Python: `make test PYTHON=python3.12`, after `make clean`. PyPI's torch for Linux brings CUDA along; where
# there is no GPU, `PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test` saves gigabytes.

PYTHON ?= python3
ARGS   ?=

VENV   := .venv
FLOORS := .venv-floors
NEWEST := .venv-newest
COMMON := .venv-common
CONSUMERS := .venv-consumers
KERNELS := .venv-kernels
DOCS   := .venv-docs
VERSIONS := .versions

# A wheel of transformers has no tests; its source distribution has those of models.
TRANSFORMERS_TESTS ?= $(CURDIR)/$(COMMON)/source/tests

# After the installation nothing needs the network, and nothing goes to the user's own caches ($@ names the venv's).
OFFLINE = NO_MKDOCS_2_WARNING=1 HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HOME="$(CURDIR)/$(VENV)/huggingface"
# One torch thread in each process: tiny models gain nothing from more, and the processes share the cores.
# Bytecode is written even where the machine's settings say no: pytest rewrites every test, and processes start often.
PYTEST  = OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE= $(OFFLINE) \
          $(VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

.DELETE_ON_ERROR:
.PHONY: help demo test mutants coverage lint test-floors test-newest test-versions test-common test-browser test-consumers test-kernels docs docs-serve benchmark wheel constraints clean

help:
	@sed -n 's/^#   make/  make/p' Makefile

demo:
	@if $(PYTHON) -P -c 'import hf_localattn.metrics; hf_localattn.extras.require("train", "")' 2>/dev/null; \
	then python=$(PYTHON); else python=$(VENV)/bin/python; $(MAKE) --no-print-directory $(VENV)/.installed || exit; fi; \
	$(OFFLINE) $$python examples/demo.py $(ARGS)

test: $(VENV)/.installed
	$(PYTEST) $(ARGS)

# The record of the lines that each test runs takes minutes; `ARGS=--recorded` uses the last one.
mutants: $(VENV)/.installed
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(OFFLINE) $(VENV)/bin/python -m tests.mutants $(ARGS)

coverage: $(VENV)/.installed
	$(PYTEST) --cov hf_localattn/models --cov-report term-missing:skip-covered --cov-fail-under 95 tests/models tests/hub $(ARGS)

lint: $(VENV)/.installed
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell

test-floors: VENV := $(FLOORS)
test-floors: $(FLOORS)/.installed
	$(PYTEST) $(ARGS)

test-newest: VENV := $(NEWEST)
test-newest: $(NEWEST)/.installed
	$(PYTEST) -p tests.deprecations $(ARGS)

# Each environment saves before the first one loads; all disagreements are listed before the target fails.
ENVIRONMENTS = $(FLOORS) $(VENV) $(NEWEST)
test-versions: $(ENVIRONMENTS:=/.installed)
	rm -rf $(VERSIONS)
	for saver in $(ENVIRONMENTS); do \
	  $(OFFLINE) $$saver/bin/python -m tests.other_versions save $(VERSIONS)/$$saver || exit; done
	failed=0; for saver in $(ENVIRONMENTS); do for loader in $(ENVIRONMENTS); do \
	  echo "saved with $$saver, loaded with $$loader:"; \
	  (cd $(VERSIONS) && $(OFFLINE) "$(CURDIR)/$$loader/bin/python" -P "$(CURDIR)/tests/other_versions.py" load $$saver) \
	  || failed=1; done; done; exit $$failed

test-common: $(VENV)/.installed $(COMMON)/.installed
	TRANSFORMERS_TESTS="$(TRANSFORMERS_TESTS)" PYTHONPATH="$(CURDIR)/$(COMMON)/site" \
	  $(PYTEST) -m common tests/transformers_common $(ARGS)

test-browser: $(VENV)/.browser
	$(PYTEST) --numprocesses 0 -m browser tests/serving $(ARGS)

test-consumers: VENV := $(CONSUMERS)
test-consumers: $(CONSUMERS)/.installed
	$(PYTEST) --numprocesses 0 -m consumers tests/consumers $(ARGS)

# Triton reads the variable when it is imported. Drawn shapes are `slow`, and run here too.
test-kernels: VENV := $(KERNELS)
test-kernels: $(KERNELS)/.installed
	TRITON_INTERPRET=1 $(PYTEST) -m triton tests/kernels $(ARGS)

docs: VENV := $(DOCS)
docs: $(DOCS)/.installed
	$(OFFLINE) $(VENV)/bin/python -m mkdocs build --strict
	$(PYTEST) --numprocesses 0 -m docs tests/test_docs.py $(ARGS)

docs-serve: VENV := $(DOCS)
docs-serve: $(DOCS)/.installed
	$(OFFLINE) $(VENV)/bin/python -m mkdocs serve $(ARGS)

benchmark: $(VENV)/.installed
	$(OFFLINE) $(VENV)/bin/python -m benchmarks $(ARGS)

wheel: $(VENV)/.installed
	rm -rf build
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) \
	$(VENV)/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# The stamp is the last thing made, so that an interrupted installation is taken up again.
$(VENV)/.installed: setup.cfg constraints.txt
	$(call create,$(VENV))
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.browser: $(VENV)/.installed
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[demo,browser]'
	touch $@

# bertviz declares boto3, which it does not import here and whose python-dateutil is older than that of constraints.txt.
$(CONSUMERS)/.installed: setup.cfg constraints.txt tests/consumers/requirements.txt
	$(call create,$(CONSUMERS))
	$(CONSUMERS)/bin/python -m pip install --quiet --constraint constraints.txt \
	  --requirement tests/consumers/requirements.txt --editable '.[train,parser,test,peft,onnx,demo]'
	$(CONSUMERS)/bin/python -m pip install --quiet --no-deps bertviz==1.4.1
	touch $@

$(KERNELS)/.installed: setup.cfg constraints.txt
	$(call create,$(KERNELS))
	$(KERNELS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[train,parser,test,kernels]'
	touch $@

$(FLOORS)/.installed: setup.cfg scripts/floors.py
	$(call create,$(FLOORS))
	$(FLOORS)/bin/python scripts/floors.py train parser test search lookahead plot > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip install --quiet --requirement $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip install --quiet --constraint $(FLOORS)/floors.txt --editable '.[train,parser,test,search,lookahead,plot]'
	touch $@

# Nothing is pinned: a failure here is a release of a library that has changed.
$(NEWEST)/.installed: setup.cfg
	$(call create,$(NEWEST))
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	touch $@

$(DOCS)/.installed: setup.cfg constraints.txt
	$(call create,$(DOCS))
	$(DOCS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[docs,train,test]'
	touch $@

# The source of the transformers that is installed, and what its tests import, beside the environment and not in it.
$(COMMON)/.installed: $(VENV)/.installed
	rm -rf $(COMMON)
	$(VENV)/bin/python -m pip download --quiet --no-deps --no-build-isolation --no-binary transformers \
	  --dest $(COMMON) "$$($(VENV)/bin/python -m pip freeze | grep '^transformers==')"
	$(VENV)/bin/python -m pip install --quiet --no-deps --target $(COMMON)/site parameterized
	mkdir $(COMMON)/source
	tar -xzf $(COMMON)/transformers-*.tar.gz --strip-components 1 -C $(COMMON)/source
	touch $@

# torch stays as it is: it is renewed by hand, in constraints.txt, because of its size.
constraints:
	rm -rf $(NEWEST)
	$(call create,$(NEWEST))
	$(NEWEST)/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" '.[all,dev,browser,docs]'
	{ sed -n '/^#/p' constraints.txt; $(NEWEST)/bin/python -m pip freeze --all \
	  | grep -v -E '^(hf_localattn|pip|nvidia-|cuda-|triton)' | sed -E 's/\+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf $(NEWEST)

clean:
	rm -rf $(VERSIONS) $(VENV) $(FLOORS) $(NEWEST) $(COMMON) $(CONSUMERS) $(KERNELS) $(DOCS) build dist site demo_output *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define create
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo >&2 "hf_localattn needs Python 3.11 or newer;\
 $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 ..."; exit 1; }
$(PYTHON) -m venv $(1)
endef
