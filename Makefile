# One line a target: `make help`. Every target does its own set-up; a set-up that is done costs nothing.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench bench-detect bench-noise bench-search up down clean

# options of pytest: make test ARGS="-k detection"
ARGS ?=

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## prepare .venv, with .venv/bin/stepwatch in it (Python 3.11, 3.12 or 3.13)
	@sh infra/setup.sh

demo: setup ## real JAX releases from night to named culprit, in about 10 minutes (FRESH=1 measures all again)
	@exec .venv/bin/stepwatch demo $(if $(filter-out 0,$(FRESH)),--fresh)

test: setup ## run the tests (ARGS="-k word" chooses)
	@exec .venv/bin/python -m pytest $(ARGS)

check: setup ## lint, format, types, layers, then the tests, which hold docs and names as well
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	@$(MAKE) --no-print-directory test

bench: setup ## measure stepwatch itself: ingest, detection, Airflow's overhead
	@exec .venv/bin/python infra/bench.py

bench-detect: setup ## detection against its targets, beside other detectors; under 15 minutes (ARGS=--quick)
	@exec .venv/bin/python infra/bench_detect.py $(ARGS)

bench-search: setup ## the search against its targets in simulated worlds, beside others (ARGS="--worlds 200")
	@exec .venv/bin/python infra/bench_search.py $(ARGS)

bench-noise: setup ## how much figures move when nothing changes, beside plain asv; under 20 minutes (ARGS="--runs 3")
	@exec .venv/bin/python infra/bench_noise.py $(ARGS)

up: setup ## start Postgres and Airflow and leave them running; prints page and login
	@exec .venv/bin/stepwatch up

down: setup ## stop what `make up` started
	@exec .venv/bin/stepwatch down

clean: ## remove .venv and the tools' caches; the service's data in .stepwatch stays
	rm -rf .venv .ruff_cache .mypy_cache .pytest_cache .import_linter_cache .hypothesis
