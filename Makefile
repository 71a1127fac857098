# make run | test | test-quick | lab | notebooks | ledger | site | slides | student | teacher | gpu | clean-cache. Each sets up first.
#   ONLY="11 13"  only these notebooks    JOBS=1       processes at a time     FORCE=1  run also what is up to date
#   RESULTS=DIR   where results go        TESTS="-k x" options for pytest      PYTHON=...  a Python 3.11 to 3.13 for .venv
#   OUT=DIR       where copies and slides go: a new folder
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.PHONY: help setup chromium run test test-quick lab notebooks ledger site slides student teacher gpu clean-cache
BIN := $(CURDIR)/.venv/bin
PYTHON ?= python3.11 python3.12 python3.13 python3
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n : 4)))
RUN := "$(BIN)/python" -m xaihelpers.run $(ONLY) --jobs $(JOBS) $(if $(FORCE),--force) $(if $(RESULTS),--results "$(RESULTS)")
# Slow progress bars: nbval reads no message while a cell runs, and loses those beyond a thousand or so, the last one too.
PYTEST := TQDM_MININTERVAL=30 "$(BIN)/python" -m pytest --nbval-lax --nbval-current-env -n $(JOBS) --dist loadgroup --no-loadscope-reorder --durations=25
SUITABLE := import sys, venv, ensurepip; assert (3, 11) <= sys.version_info < (3, 14); print(sys.executable)

help:
	sed -n 's/^# \?//p' Makefile

# .venv/.ready says what the environment was made from, and is written last: without it, or with another, it is made anew.
setup:
	for name in $(PYTHON); do if found=$$("$$name" -c "$(SUITABLE)" 2>/dev/null); then break; fi; done
	if [ -z "$${found:-}" ]; then
	  echo "Python 3.11, 3.12 or 3.13 with venv is needed, and none of these is one: $(PYTHON). Install it, or name it by make PYTHON=/path/to/python3.11." >&2
	  exit 1
	fi
	state="$$found $(CURDIR) $$(cat pyproject.toml constraints.txt | cksum)"
	if command -v flock >/dev/null; then exec 9>.venv.lock; flock 9; fi  # a second set-up waits for the first
	if [ "$$(cat .venv/.ready 2>/dev/null)" = "$$state" ]; then exit 0; fi
	echo "set-up: the packages of constraints.txt into .venv (6 GB, some minutes)"
	"$$found" -m venv --clear .venv
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt -e '.[test,bench]'
	"$(BIN)/python" -c "import diffusers, open_clip, timm, torchvision, xaihelpers.run"
	echo "$$state" > .venv/.ready
	echo "set-up: done in $$SECONDS s"

# A browser for tests, where it may be installed; without one these tests are skipped, visibly.
chromium:
	if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || echo "Chromium could not be installed: tests in a browser are skipped."
	fi

run: setup
	$(RUN)

# Every notebook by nbval and all tests; at the end the report, which reads what the notebooks have recorded.
test: setup chromium
	export XAI_RESULTS=$$(mktemp -d); trap 'rm -rf "$$XAI_RESULTS"' EXIT; failed=0
	$(PYTEST) tests notebooks --ignore=notebooks/99_report.ipynb $(TESTS) || failed=1
	if [ -z '$(TESTS)' ]; then $(PYTEST) -n 1 notebooks/99_report.ipynb tests/test_notebooks_recorded.py || failed=1; fi
	exit $$failed

test-quick: setup chromium
	$(PYTEST) tests -m "not notebooks" $(TESTS)

lab: setup
	exec "$(BIN)/jupyter" lab

notebooks: setup
	$(RUN) --inplace

# The long presets, some hours: done ones are skipped. When all are done, each run without its pictures takes the place
# of its notebook's recorded one in data/long_runs, where notebook 99 reads it: see the README there.
ledger: setup
	presets="$(foreach n,$(or $(ONLY),*),$(foreach name,stored pairs long,$(wildcard notebooks/presets/$(n).$(name).yaml)))"
	if [ -z "$${presets// /}" ]; then echo "There is no long preset of these notebooks: $(ONLY)" >&2; exit 1; fi
	results=$$("$(BIN)/python" -c 'import sys; from xaihelpers.paths import results_home as home; print(home(sys.argv[1]))' "$(or $(RESULTS),ledger)")
	mkdir -p "$$results"
	for preset in $$presets; do
	  IFS=. read -r number name _ <<< "$${preset##*/}"
	  echo "- {notebook: '$$number', preset: $$name}"
	done > "$$results/presets.yaml"
	"$(BIN)/python" -m xaihelpers.run "$$results/presets.yaml" --jobs $(JOBS) $(if $(FORCE),--force) --results "$$results"
	for preset in $$presets; do
	  number=$${preset##*/}; number=$${number%%.*}
	  made=$$(ls -td "$$results/$$number"-*/ | head -n 1)
	  rm -rf "$$made"/*.png data/long_runs/"$$number"-*
	  mv "$$made" data/long_runs/
	done
	ls -d data/long_runs/*-*

site: setup
	"$(BIN)/python" -m sphinx -W -q -j $(JOBS) -c docs . docs/_build
	echo "docs/_build/index.html"

# Copies without answers, copies with answers unfolded, and pages of slides: see docs/TEACHING.md.
student: EXPORTER := Student
teacher: EXPORTER := Teacher
slides: EXPORTER := Slides
student teacher slides: setup
	out="$(or $(OUT),lessons/$@)"
	if [ -e "$$out" ]; then echo "$$out is there already: move it away, or name another folder by OUT=DIR" >&2; exit 1; fi
	files=$$(ls $(foreach n,$(or $(ONLY),*),$(or $(wildcard notebooks/$(n)_*.ipynb notebooks/appendix/$(n)_*.ipynb),notebooks/$(n)_*.ipynb)))
	PYTHONPATH=docs "$(BIN)/python" -m nbconvert --log-level=ERROR --to exporters.$(EXPORTER) --output-dir "$$out" $$files
	if [ $@ = slides ]; then cp -R "$(BIN)"/../lib/python*/site-packages/sphinx_revealjs/_static/revealjs "$$out/reveal"
	else cp notebooks/*.png "$$out"; fi
	ls -d "$$out"/*.*

gpu: setup
	"$(BIN)/python" benchmarks/devices.py --require cuda

clean-cache: setup
	rm -rf "$$("$(BIN)/python" -c 'from xaihelpers.paths import cache_home; print(cache_home())')"
