# make run | make test | make lab | make notebooks. Each sets up first: minutes once, a moment afterwards.
#   ONLY="11 13"     only these notebooks           JOBS=1        notebooks at a time
#   FORCE=1          run also what is up to date    RESULTS=DIR   where results go
#   TESTS="-k paths" options for pytest             PYTHON=...    a Python 3.11 to build .venv with

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
.PHONY: help setup chromium run test lab notebooks clean-cache

PYTHON ?= $(firstword $(shell command -v python3.11) $(shell command -v python3))
PIP_INSTALL ?= -m pip install --disable-pip-version-check --no-input
VENV := $(CURDIR)/.venv
RUN := "$(VENV)/bin/python" -m xaihelpers.run $(ONLY) $(if $(JOBS),--jobs $(JOBS)) $(if $(FORCE),--force) $(if $(RESULTS),--results "$(RESULTS)")

help:
	sed -n 's/^# \?//p' $(firstword $(MAKEFILE_LIST)) | head -4

# .venv/.ready holds what the environment was made from, and is written last. .venv/.unfinished stands from the first moment
# to the last: where it is found, an earlier set-up was interrupted and nothing in the environment can be relied on.
setup:
	found=$$("$(PYTHON)" -c 'import platform, sys; print(platform.python_version(), getattr(sys, "_base_executable", sys.executable))' 2>/dev/null || true)
	version=$${found%% *}
	case $$version in
	  3.11.*) ;;
	  *) echo "Python 3.11 is needed, but '$(PYTHON)' is $${version:-none}: install it, or name it by make PYTHON=/path/to/python3.11." >&2; exit 1 ;;
	esac
	state="$$version $(CURDIR) $$(cksum < pyproject.toml)"
	look='import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))'
	needed="torch torchvision open_clip diffusers accelerate transformers timm sklearn scipy pandas pyarrow matplotlib papermill nbval pytest jupyterlab anywidget nltk statsmodels pytorch_grad_cam torchcam xaihelpers"
	if other=$$(cat "$(VENV)/.unfinished" 2>/dev/null); then
	  if kill -0 "$$other" 2>/dev/null; then
	    echo "Process $$other is setting up: wait for it (if there is no such set-up, delete .venv)." >&2; exit 1
	  fi
	  echo "set-up: an earlier one was interrupted, starting again"
	  rm -rf "$(VENV)"
	elif [ -e "$(VENV)/.ready" ]; then
	  if ! "$(VENV)/bin/python" -P -c "$$look" $$needed 2>/dev/null; then
	    echo "set-up: .venv is damaged, making it again"
	    rm -rf "$(VENV)"
	  elif [ "$$(cat "$(VENV)/.ready")" = "$$state" ]; then
	    exit 0
	  elif [[ "$$(cat "$(VENV)/.ready")" != "$$version $(CURDIR) "* ]]; then
	    echo "set-up: Python or the project's place has changed, making .venv again"
	    rm -rf "$(VENV)"
	  fi
	fi
	echo "set-up: Python $$version and the packages of pyproject.toml into .venv (6 GB, some minutes the first time)"
	mkdir -p "$(VENV)"
	echo $$$$ > "$(VENV)/.unfinished"
	"$${found#* }" -m venv "$(VENV)"
	"$(VENV)/bin/python" $(PIP_INSTALL) -e '.[test]'
	echo "set-up: trying the packages"
	"$(VENV)/bin/python" -P -c "import sys; [__import__(name) for name in sys.argv[1:]]" $$needed
	echo "$$state" > "$(VENV)/.ready"
	rm "$(VENV)/.unfinished"
	echo "set-up: done"

# A browser for the tests of the rating panel, where it may be installed here; without one they are skipped, visibly.
chromium:
	if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  echo "set-up: installing Chromium for the tests of the rating panel"
	  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || echo "Chromium could not be installed: these tests are skipped."
	fi

run: setup
	$(RUN)

test: setup chromium
	"$(VENV)/bin/python" -m pytest $(TESTS)

lab: setup
	exec "$(VENV)/bin/jupyter" lab

notebooks: setup
	$(RUN) --inplace

# Features, embeddings and answers that can be computed again; data sets and results stay.
clean-cache: setup
	rm -rf "$$("$(VENV)/bin/python" -c 'from xaihelpers.paths import cache_home; print(cache_home())')"
