# make run | make test | make test-quick | make rehearse | make lab | make notebooks | make site | make gpu. Each sets up first: minutes once, a moment afterwards.
# make slides | make student | make teacher, for a ROUTE of the README: slides, notebooks without answers, notebooks with notes.
#   ONLY="11 13"     only these notebooks           JOBS=1        processes at a time
#   FORCE=1          run also what is up to date    RESULTS=DIR   where results go
#   TESTS="-k paths" options for pytest             PYTHON=...    a Python 3.11 to 3.13 to build .venv with
#   ROUTE=45         a way through the notebooks    OUT=DIR       where a lesson goes      PDF=1  slides as a PDF, too

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
.PHONY: help setup chromium run test test-quick rehearse lab notebooks site gpu slides student teacher clean-cache

VENV := $(CURDIR)/.venv
PYTHON ?= python3.11 python3.12 python3.13 python3
PIP_INSTALL ?= -m pip install --quiet --disable-pip-version-check --no-input
ROUTE ?= 45
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n : 4)))
RUN := "$(VENV)/bin/python" -m xaihelpers.run $(ONLY) --jobs $(JOBS) $(if $(FORCE),--force) $(if $(RESULTS),--results "$(RESULTS)")
PYTEST := "$(VENV)/bin/python" -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder --durations=40 --durations-min=20
SUITABLE := import sys, venv, ensurepip; assert (3, 11) <= sys.version_info < (3, 14); print(sys.version.split()[0], sys.executable)

help:
	sed -n 's/^# \?//p' $(firstword $(MAKEFILE_LIST)) | head -6

# .venv/.ready holds what the environment was made from, and is written last: without it (an earlier set-up was interrupted),
# or with another Python or place in it, the environment is made anew; with other packages they are installed into it.
setup:
	found=
	for python in $(PYTHON); do
	  if found=$$("$$python" -c "$(SUITABLE)" 2>/dev/null); then break; fi
	done
	if [ -z "$$found" ]; then
	  echo "Python 3.11, 3.12 or 3.13 with venv is needed, and none of these is one: $(PYTHON). Install it, or name it by make PYTHON=/path/to/python3.11." >&2
	  exit 1
	fi
	state="$$found $(CURDIR) $$(cat pyproject.toml constraints.txt | cksum)"
	if command -v flock >/dev/null; then exec 9>.venv.lock; flock 9; fi  # a second set-up waits for the first
	ready=$$(cat "$(VENV)/.ready" 2>/dev/null || true)
	if [ "$$ready" = "$$state" ]; then
	  if "$(VENV)/bin/python" -m xaihelpers.dependencies; then exit 0; fi
	  ready=
	fi
	echo "set-up: Python $${found%% *} and the packages of constraints.txt into .venv (6 GB, some minutes the first time)"
	case $$ready in "$$found $(CURDIR) "*) rm "$(VENV)/.ready" ;; *) rm -rf "$(VENV)" ;; esac
	"$${found#* }" -m venv "$(VENV)"
	"$(VENV)/bin/python" $(PIP_INSTALL) -c constraints.txt -e '.[test,bench]'
	echo "set-up: trying the packages"
	"$(VENV)/bin/python" -m xaihelpers.dependencies --import
	echo "$$state" > "$(VENV)/.ready"
	echo "set-up: done"

# A browser for tests and for PDFs, where it may be installed here; without one these tests are skipped, visibly.
chromium:
	if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  echo "set-up: installing Chromium, for the tests in a browser and for PDFs of slides"
	  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || echo "Chromium could not be installed: tests in a browser are skipped, and slides give no PDF."
	fi

run: setup
	$(RUN)

test: setup chromium
	$(PYTEST) $(TESTS)

test-quick: setup chromium
	$(PYTEST) -m "not notebooks" $(TESTS)

# Every preset of the paper's size, run to its end on stand-ins of random weights; GO_ON=1 skips what came to its end.
rehearse: setup
	PYTHONPATH="$(CURDIR)/tests" "$(VENV)/bin/python" -m rehearsal $(ONLY) --jobs $(JOBS) $(if $(GO_ON),--go-on)

lab: setup
	exec "$(VENV)/bin/jupyter" lab

notebooks: setup
	$(RUN) --inplace

# The committed notebooks as a static site, in site/; REPOSITORY=owner/name adds links to Colab and Binder.
site: setup
	"$(VENV)/bin/python" -m xaihelpers.site $(if $(REPOSITORY),--repository "$(REPOSITORY)")

# On a machine with a GPU: its tests, 12 and 13 on it, and the kernels against its bandwidth, in ten minutes.
gpu: setup
	"$(VENV)/bin/python" -m xaihelpers.device_report --require cuda

# Slides, and copies of the notebooks, for a route that README lists; the path of the first page is printed.
slides: setup $(if $(PDF),chromium)
	"$(VENV)/bin/python" -m xaihelpers.teaching slides "$(ROUTE)" $(if $(OUT),--out "$(OUT)") $(if $(PDF),--pdf)

student teacher: setup
	"$(VENV)/bin/python" -m xaihelpers.teaching $@ "$(ROUTE)" $(if $(OUT),--out "$(OUT)")

# Features, embeddings and answers that can be computed again; data sets and results stay.
clean-cache: setup
	rm -rf "$$("$(VENV)/bin/python" -c 'from xaihelpers.paths import cache_home; print(cache_home())')"
