# Two commands do all set-up on a machine with Python >= 3.11 and make:
#   make demo   install into .venv and run the main job on data that ships inside
#   make test   install into .venv and run linters, type checks and the whole test suite
# The others are explained in docs/development.md.
PYTHON ?= python3
OLDEST_PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto
PORT ?= 8000
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# One thread a worker: the workers are the parallelism.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)
# The parts that choose for people, and what runs every branch of them.
CHOICES_TESTS := tables search targets estimators/test_bandfall.py \
	estimators/test_classifier.py test_cluster.py
CHOICES_REPORT := $(BIN)/coverage report --fail-under=95 --include
# What one wheel in an environment with nothing but its own dependencies can be asked.
CORE_TESTS := kernels/test_kernel.py descent/test_schedules.py test_closed_form.py test_environment.py \
	descent/test_euler.py descent/test_flow.py descent/test_path.py descent/test_sweep.py \
	rivals/test_rivals.py estimators/test_estimator_checks.py files/test_hostile.py

.PHONY: demo test quick test-oldest test-latest coverage coverage-choices lint format docs docs-serve package sbom clean

demo: $(VENV)/.demo
	$(BIN)/python -m bandfall.demo out

test: $(VENV)/.test lint
	$(PYTEST)

# A minute and a half: no linters, browsers, clusters, networks, programs or reproductions.
quick: $(VENV)/.test
	$(PYTEST) -m "not slow"

# The declared minima of all dependencies, on the oldest Python, in an environment of their own.
test-oldest:
	$(OLDEST_PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python $(PIP_INSTALL) --upgrade "pip>=25.1"
	.venv-oldest/bin/python $(PIP_INSTALL) --editable ".[cli,data,onnx,plot,torch]" --group suite \
		--constraint constraints-oldest.txt
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n $(WORKERS)

# The newest versions there are.
test-latest:
	$(PYTHON) -m venv .venv-latest
	.venv-latest/bin/python $(PIP_INSTALL) --upgrade "pip>=25.1"
	.venv-latest/bin/python $(PIP_INSTALL) --upgrade --upgrade-strategy eager \
		--editable ".[cli,data,onnx,plot,torch]" --group suite
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-latest/bin/python -m pytest -n $(WORKERS)

# Fails below the floor in pyproject.toml; the further reports are of the parts that choose for
# people, which `make coverage-choices` prints from their own tests alone.
coverage: $(VENV)/.test
	$(PYTEST) --cov --cov-branch --cov-report=
	$(BIN)/coverage report --skip-covered
	$(CHOICES_REPORT) 'src/bandfall/_search/*'
	$(CHOICES_REPORT) 'src/bandfall/tables/*'

coverage-choices: $(VENV)/.test
	$(PYTEST) --cov --cov-branch --cov-report= --cov-fail-under=0 $(CHOICES_TESTS:%=tests/%)
	$(CHOICES_REPORT) 'src/bandfall/_search/*'
	$(CHOICES_REPORT) 'src/bandfall/tables/*'

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet --no-progress .github
	@if command -v actionlint >/dev/null; then actionlint; \
	else echo "actionlint is not installed: workflows were checked by their schema and zizmor"; fi

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The site, offline: warnings are errors, the examples are run, every link within it is followed.
docs: $(VENV)/.docs
	rm -rf build/docs docs/api/generated
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html \
		docs build/docs
	$(BIN)/python docs/check_site.py build/docs

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs $(PORT)

# sdist and wheel, checked, installed and tried out the way a stranger would.
package: $(VENV)/.test $(VENV)/.package
	rm -rf dist build/package
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*.tar.gz dist/*.whl
	$(BIN)/check-wheel-contents dist/*.whl
	# The wheel alone: no source tree beside the tests, no optional dependency.
	mkdir -p build/package/wheel
	cp -r pyproject.toml tests build/package/wheel
	$(PYTHON) -m venv build/package/venv
	build/package/venv/bin/python $(PIP_INSTALL) dist/*.whl pytest hypothesis
	cd build/package/wheel && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ../venv/bin/python -m pytest \
		-q -k "not device" $(CORE_TESTS:%=tests/%)
	# The sdist with its own tests.
	tar -xzf dist/*.tar.gz -C build/package
	cd build/package/bandfall-* && PYTHONPATH=src:tests OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		../../../$(BIN)/python -m pytest -q -n $(WORKERS)
	$(MAKE) sbom

# What the wheel brings along, as a bill of materials in CycloneDX's format.
sbom: $(VENV)/.package
	$(PYTHON) -m venv build/package/sbom
	build/package/sbom/bin/python $(PIP_INSTALL) dist/*.whl
	build/package/sbom/bin/python -m pip uninstall --quiet --yes pip setuptools
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library \
		--output-reproducible --output-file dist/bandfall.cdx.json build/package/sbom

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "bandfall needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --upgrade "pip>=25.1"

$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) --editable . --group $*
	@touch $@

clean:
	rm -rf $(VENV) .venv-oldest .venv-latest out build dist .coverage \
		docs/api/generated docs/auto_examples docs/playground.html \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
