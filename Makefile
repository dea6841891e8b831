# resource-slack: everything sets itself up. Needs make, python3 (3.11 or newer) with venv, and Go for e2e.
# No root, no Docker. `make demo` first, then `make test`.

PYTHON  ?= python3
BACKEND ?= local
BIN     := .venv/bin
READY   := .venv/.ready
# A uv on PATH is taken as it is; otherwise one is installed into .uv, away from the project's own environment.
UV      := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
CRDS    := charts/resource-slack/crds
KINDS   := SlackPolicy:slackpolicies SlackScale:slackscales SlackHistory:slackhistories CpuAuditPolicy:cpuauditpolicies CpuAuditReport:cpuauditreports ThrottlePolicy:throttlepolicies ActivationPool:activationpools ActivationQuota:activationquotas
VALUES  := charts/resource-slack/values.schema.json
DIGESTS := charts/resource-slack/templates/crds/_digests.tpl
PLAIN   := deploy/operator.yaml
SCHEMAS := plan explain status simulate tune load load-watcher score throttler-status throttler-explain throttler-check throttler-simulate throttler-release demand-top demand-explain demand-replay migrate uninstall upgrade-crds record audit audit-explain audit-kernel version
REFS    := scenario slackpolicy cpuauditpolicy cpuauditreport throttlepolicy throttler activationpool activationquota flags metrics events load-watcher demand-lines
RULES   := slack/monitoring/rules.yaml charts/resource-slack/rules/resource-slack.yaml
BOARDS  := operator audit scorer throttler demand
SHELVES := slack/monitoring/dashboards charts/resource-slack/dashboards
BURST   := examples/scenarios/burst.yaml
PICTURE := .cache/demo/burst.png
# --at: the time at which the example cluster was written, so that the demo shows the same every day.
EXAMPLE := -f examples/slackpolicy.yaml --snapshot examples/cluster.json --at 2026-01-15T10:00:00Z
# `make -s` prints nothing but what goes wrong.
QUIET   := $(findstring s,$(firstword -$(filter-out --%,$(MAKEFLAGS))))
say      = $(if $(QUIET),true,printf '%s\n' $(1))

export UV_PYTHON_DOWNLOADS = never
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-plan demo-cluster playground test test-thorough coverage check check-lint check-format check-types check-layers \
        check-crds check-reference check-monitoring check-pages check-words e2e e2e-core bench bench-reading bench-coldstart bench-steady bench-bursts bench-keeping bench-packing bench-memory bench-storm \
        bench-auditing bench-scoring bench-scoring-memory bench-starting bench-scoring-busy bench-scoring-pods bench-demand bench-demand-real fuzz soak soak-alerts fidelity release release-check version crds deploy reference monitoring pictures screenshots architecture example locks clean
.DELETE_ON_ERROR:

help:
	@printf '%s\n' \
	  'make demo           one burst of pods simulated without slack and with it, in under a minute' \
	  'make demo-plan      what slack would be kept on an example cluster' \
	  'make test           unit, property and contract tests, in two minutes' \
  'make test-thorough  the same with all examples, and those that take long' \
	  'make coverage       branch coverage of planner, cluster model, throttler, demand, scorer, load watcher, by their own tests' \
	  'make check          lint, format, types, layers, generated files, names in pages' \
	  'make e2e-core       the core of the suites on a real control plane, in twelve minutes' \
	  'make e2e            all suites on a real control plane (BACKEND=kind: on kind)' \
	  'make demo-cluster   the main job on a real control plane, as a timeline' \
	  'make playground     such a cluster to play with, until Ctrl-C' \
	  'make bench          the benchmarks that take minutes (docs/performance.md has all)' \
	  'make soak           ten minutes of churn and broken watches, and a week of each companion' \
	  'make fuzz           eight minutes of fuzzing what reads cgroup files, requests, payloads, records, starts and queues' \
	  'make fidelity       the simulator beside the real components, figure by figure (some minutes)' \
	  'make release        build what a release has into dist: wheel, chart, plugin, bill of materials, sums' \
  'make release-check  build it and install from it, each where nothing else is (some minutes)' \
  'make crds deploy reference monitoring locks' \
	  '                    write what is generated: the CRD, manifests without Helm, references, rules and dashboard, locks' \
	  'make pictures       draw the pictures of the docs anew (a minute); make architecture those of docs/architecture.md' \
	  'make screenshots    take the pictures of docs/web.md anew; needs Chromium' \
	  'make clean          remove what make has made'

# --- set-up ----------------------------------------------------------------------------------------------------------

setup: $(READY)

.uv/bin/uv: requirements/uv.txt
	@$(call say,'setting up: uv')
	@$(PYTHON) -m venv .uv || { echo 'python3 -m venv does not work; on Debian: apt-get install python3-venv' >&2; exit 1; }
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(READY): requirements/dev.txt pyproject.toml | $(UV)
	@$(call say,'setting up: the locked requirements into .venv')
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(call say,'setting up: resource-slack itself')
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# --- what a reader tries first ---------------------------------------------------------------------------------------

demo: $(READY)
	@mkdir -p .cache/demo
	@printf '\n%s\n\n' 'The same three bursts of 12 pods on an autoscaled cluster, without slack and with it (a simulation; seconds):'
	@echo '$$ resource-slack simulate --compare none,own $(BURST) --picture $(PICTURE)'
	@$(BIN)/resource-slack simulate --compare none,own $(BURST) --picture $(PICTURE)
	@printf '\n'
	@printf '%s\n' \
	  'Next:' \
	  '  a rate for your own cluster    $(BIN)/resource-slack record --out trace.parquet --duration 24h' \
	  '                                 $(BIN)/resource-slack tune --from-trace trace.parquet   (docs/choosing-a-rate.md)' \
	  '  what would be kept right now   make demo-plan' \
	  '  the whole loop, for real       make demo-cluster' \
	  '  install                        README.md'

demo-plan: $(READY)
	@printf '\n%s\n\n' 'A cluster of 12 nodes with 32 workloads (examples/cluster.json) and a policy (examples/slackpolicy.yaml):'
	@echo '$$ resource-slack plan $(EXAMPLE)'
	@$(BIN)/resource-slack plan $(EXAMPLE)
	@printf '\n%s\n\n' 'Which placeholder has the capacity for the next pod of the shop'"'"'s api?'
	@echo '$$ resource-slack explain -n shop deploy/api $(EXAMPLE)'
	@$(BIN)/resource-slack explain -n shop deploy/api $(EXAMPLE)
	@printf '\n%s\n\n' 'And for the database? It is large and never comes in a burst: its annotation leaves it out.'
	@echo '$$ resource-slack explain -n db sts/postgres $(EXAMPLE)'
	@$(BIN)/resource-slack explain -n db sts/postgres $(EXAMPLE)
	@printf '\n'
	@printf '%s\n' \
	  'Next:' \
	  '  your own cluster, read-only    kubectl get nodes,pods -A -o json | $(BIN)/resource-slack plan --snapshot -' \
	  '  the whole loop, for real       make demo-cluster' \
	  '  install                        README.md'

# What the demo needs, not all that the suites need.
demo-cluster: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kwok karpenter
	@$(BIN)/python -m e2e.demo

playground: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok karpenter
	@$(BIN)/python -m e2e.playground

# --- tests -----------------------------------------------------------------------------------------------------------

# One worker a core. PYTEST_ARGS goes through: -n 0 for one process, -k, --shuffle SEED. Tests of the pages are run by
# `make check-pages`.
PYTEST = $(BIN)/python -m pytest $(if $(QUIET),--quiet --no-header,) --numprocesses=auto --dist=worksteal

test: $(READY)
	@$(PYTEST) -m 'not thorough' --ignore=tests/docs $(PYTEST_ARGS)

# All tests, the property tests with all their examples: a minute and more for some, on a machine of others much more.
test-thorough: export HYPOTHESIS_PROFILE = thorough
test-thorough: $(READY)
	@$(PYTEST) -o timeout=900 $(PYTEST_ARGS)

# What decides must be shown by tests that run in the process: the floor is for these packages, each branch counted, and
# judged by their own tests alone, with the few examples of `make test`: counting branches takes more than twice as long.
coverage: $(READY)
	@$(PYTEST) tests/planner tests/cluster --cov=slack/planner --cov=slack/cluster --cov-branch --cov-fail-under=95 $(PYTEST_ARGS)
	@$(PYTEST) tests/throttler --cov=slack/throttler --cov-branch --cov-fail-under=95 $(PYTEST_ARGS)
	@$(PYTEST) tests/demand --cov=slack/demand --cov-branch --cov-fail-under=95 $(PYTEST_ARGS)
	@$(PYTEST) tests/scorer tests/loadwatcher tests/operator/scorer tests/operator/loadwatcher --cov=slack/scorer --cov=slack/loadwatcher --cov-branch --cov-fail-under=95 $(PYTEST_ARGS)

check: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-lint check-format check-layers check-crds \
	  check-reference check-monitoring check-pages check-words
	@$(call say,'check: all good')

check-lint: $(READY)
	@$(call say,'check: lint')
	@$(BIN)/ruff check --quiet .

check-format: $(READY)
	@$(call say,'check: format')
	@$(BIN)/ruff format --quiet --check . || { echo 'some files are not formatted; run: $(BIN)/ruff format .' >&2; exit 1; }

check-types: $(READY)
	@$(call say,'check: types')
	@$(BIN)/mypy --no-error-summary

check-layers: $(READY)
	@$(call say,'check: layers')
	@out=$$($(BIN)/lint-imports 2>&1) || { printf '%s\n' "$$out" >&2; exit 1; }

check-crds: $(READY)
	@$(call say,'check: the CRDs are what the models say')
	@for kind in $(KINDS); do \
	  $(BIN)/resource-slack crd $${kind%%:*} | cmp --silent - $(CRDS)/$${kind##*:}.yaml || \
	    { echo "$(CRDS)/$${kind##*:}.yaml is not up to date; run: make crds" >&2; exit 1; }; \
	done
	@$(BIN)/python charts/make_crd_digests.py | cmp --silent - $(DIGESTS) || { echo '$(DIGESTS) is not up to date; run: make crds' >&2; exit 1; }
	@$(BIN)/python charts/make_values_schema.py | cmp --silent - $(VALUES) || { echo '$(VALUES) is not up to date; run: make crds' >&2; exit 1; }

check-reference: $(READY)
	@$(call say,'check: the references are what the code says')
	@for name in $(REFS); do $(BIN)/python -m tools.reference $$name | cmp --silent - docs/reference/$$name.md || \
	  { echo "docs/reference/$$name.md is not up to date; run: make reference" >&2; exit 1; }; done

check-monitoring: $(READY)
	@$(call say,'check: dashboards are what tools/monitoring says; the chart has the rules')
	@cmp --silent $(RULES) || { echo "$(lastword $(RULES)) is not up to date; run: make monitoring" >&2; exit 1; }
	@for name in $(BOARDS); do for folder in $(SHELVES); do \
	  $(BIN)/python -m tools.monitoring $$name | cmp --silent - $$folder/$$name.json || \
	    { echo "$$folder/$$name.json is not up to date; run: make monitoring" >&2; exit 1; }; done; done

check-pages: $(READY)
	@$(call say,'check: pages name what is there')
	@out=$$($(BIN)/python -m pytest --quiet --no-header --tb=short tests/docs 2>&1) || { printf '%s\n' "$$out" >&2; exit 1; }

check-words: $(READY)
	@$(call say,'check: texts for users have short sentences and standard words')
	@$(BIN)/python -m tools.readability || { echo 'python -m tools.readability --show TEXT prints what is above the wanted figures' >&2; exit 1; }

# The suite of the web page drives the system's Chromium; where there is none it is skipped, and nothing is installed.
BROWSER := $(if $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name) 2>/dev/null)),.venv/.browser)
.venv/.browser: requirements/browser.txt $(READY)
	@$(call say,'setting up: what drives the browser')
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/browser.txt
	@touch $@

e2e: $(READY) $(BROWSER)
	@$(BIN)/python -m e2e.harness.build
	@test '$(BACKEND)' != kind || $(BIN)/python -m e2e.harness.build kind-node
	@BACKEND=$(BACKEND) $(BIN)/python -m e2e.lanes $(PYTEST_ARGS)

# SUITES names some of them: make e2e-core SUITES='test_faults test_main_job'.
e2e-core: $(READY)
	@$(BIN)/python -m e2e.core $(SUITES)

bench: $(READY)
	@$(BIN)/python -m benchmarks

# Those that take longer or need more than Python: Go, or the real control plane. ARGS goes through.
bench-reading bench-coldstart bench-steady bench-bursts: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kwok
	@$(BIN)/python -m benchmarks.$(@:bench-%=%) $(ARGS)

bench-keeping: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kwok karpenter helm
	@$(BIN)/python -m benchmarks.keeping $(ARGS)

bench-packing bench-memory bench-storm bench-auditing bench-scoring: $(READY)
	@$(BIN)/python -m benchmarks.$(@:bench-%=%) $(ARGS)

# The old scheduler's rules beside ours, in one modelled world; minutes.
bench-demand: $(READY)
	@$(BIN)/python -m benchmarks.demand.simulated $(ARGS)
	@$(BIN)/python -m benchmarks.demand.ticking
	@$(BIN)/python -m benchmarks.demand.reporting
	@$(BIN)/python -m benchmarks.demand.late_starts

# On real processes, with a real broker: some minutes.
bench-demand-real: $(READY)
	@$(BIN)/python -m e2e.harness.build nats-server
	@$(BIN)/python -m benchmarks.demand.activation
	@$(BIN)/python -m benchmarks.demand.queues
	@$(BIN)/python -m benchmarks.demand.real $(ARGS)

bench-scoring-pods: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kwok
	@$(BIN)/python -m benchmarks.scoring.throughput $(ARGS)

bench-starting: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kwok kubelet helm
	@$(BIN)/python -m benchmarks.starting $(ARGS)
	@$(BIN)/python -m benchmarks.granting $(ARGS)
	@$(BIN)/python -m benchmarks.kubelet_storm $(ARGS)
	@$(BIN)/python -m benchmarks.kubelet_cache $(ARGS)

bench-scoring-busy: $(READY)
	@$(BIN)/python -m benchmarks.scoring.busy_watch $(ARGS)

bench-scoring-memory: $(READY)
	@$(BIN)/python -m benchmarks.scoring.memory $(ARGS)

# Coverage-guided fuzzing of what reads cgroup files, and of what scheduler, load watcher, gates, agents and containers send; ARGS takes libFuzzer's options. atheris has builds for few systems.
.venv/.fuzz: requirements/fuzz.txt $(READY)
	@$(call say,'setting up: the fuzzer')
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/fuzz.txt
	@touch $@

fuzz: .venv/.fuzz
	@mkdir -p .cache/fuzz/audit .cache/fuzz/scoring .cache/fuzz/throttling .cache/fuzz/demand
	@PYTHONPATH=. $(BIN)/python fuzz/audit.py -max_len=1024 $(or $(ARGS),-max_total_time=120) .cache/fuzz/audit
	@PYTHONPATH=. $(BIN)/python fuzz/scoring.py -max_len=4096 $(or $(ARGS),-max_total_time=120) .cache/fuzz/scoring
	@PYTHONPATH=. $(BIN)/python fuzz/throttling.py -max_len=4096 $(or $(ARGS),-max_total_time=120) .cache/fuzz/throttling
	@PYTHONPATH=. $(BIN)/python fuzz/demand.py -max_len=4096 $(or $(ARGS),-max_total_time=120) .cache/fuzz/demand

# False alerts of a day, by Prometheus' own rule engine.
soak-alerts: $(READY)
	@$(BIN)/python -m benchmarks.alerts $(ARGS)

soak: $(READY)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

# Karpenter always, the stock Cluster Autoscaler with CLUSTER_AUTOSCALER=path; ARGS='-o json' and the like go through.
fidelity: $(READY)
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kwok karpenter
	@$(BIN)/python -m e2e.fidelity $(ARGS)

# --- releases --------------------------------------------------------------------------------------------------------

# PROJECT_URL, IMAGE, DOWNLOAD_URL and SIGNING_KEY say what the tree cannot know (docs/releasing.md).
release: $(READY) | $(UV)
	@$(if $(SIGNING_KEY),SIGNING_KEY=$(SIGNING_KEY)) $(BIN)/python -m release.build --out dist

# In a folder of its own: what is checked is what was built now.
release-check: $(READY) | $(UV)
	@rm -rf .cache/release
	@$(BIN)/python -m release.build --out .cache/release
	@$(BIN)/python -m e2e.harness.build etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok helm actionlint
	@RESOURCE_SLACK_DIST=.cache/release $(BIN)/python -m pytest --quiet --no-header e2e/release e2e/suites/test_workflows.py $(PYTEST_ARGS)

# The version is that of pyproject.toml; VERSION=X.Y.Z writes another into all places that name it.
version: $(READY)
	@$(BIN)/python -m release.version $(VERSION)
	@test -z '$(VERSION)' || { $(MAKE) --no-print-directory -B $(READY) && $(MAKE) --no-print-directory crds deploy; }

# --- generated files -------------------------------------------------------------------------------------------------

crds: $(READY)
	@mkdir -p $(CRDS)
	@for kind in $(KINDS); do \
	  $(BIN)/resource-slack crd $${kind%%:*} > $(CRDS)/$${kind##*:}.new && \
	    mv $(CRDS)/$${kind##*:}.new $(CRDS)/$${kind##*:}.yaml || exit 1; \
	done
	@$(BIN)/python charts/make_crd_digests.py > $(DIGESTS).new && mv $(DIGESTS).new $(DIGESTS)
	@$(BIN)/python charts/make_values_schema.py > $(VALUES).new && mv $(VALUES).new $(VALUES)

deploy: $(READY)
	@$(BIN)/python -m e2e.harness.build helm >/dev/null
	@$(BIN)/python -m e2e.harness.product.helm > $(PLAIN).new && mv $(PLAIN).new $(PLAIN)

reference: $(READY)
	@mkdir -p docs/reference
	@for name in $(REFS); do $(BIN)/python -m tools.reference $$name > docs/reference/$$name.new && \
	  mv docs/reference/$$name.new docs/reference/$$name.md || exit 1; done
	@mkdir -p docs/reference/schemas
	@for name in $(SCHEMAS); do $(BIN)/resource-slack schema $$name > docs/reference/schemas/$$name.new && \
	  mv docs/reference/schemas/$$name.new docs/reference/schemas/$$name.json || exit 1; done

monitoring: $(READY)
	@mkdir -p $(dir $(RULES)) $(SHELVES)
	@cp $(RULES)
	@for name in $(BOARDS); do for folder in $(SHELVES); do \
	  $(BIN)/python -m tools.monitoring $$name > $$folder/$$name.new && mv $$folder/$$name.new $$folder/$$name.json || exit 1; done; done

# With fixed seeds and counters: the same code draws the same bytes.
pictures: $(READY)
	@for name in life day; do \
	  $(BIN)/resource-slack simulate --compare none,own docs/pictures/$$name.yaml --picture docs/pictures/$$name.svg || exit 1; \
	done
	@$(BIN)/resource-slack simulate --curve 0,0.1,0.2,0.3,0.4,0.6,0.8 --seeds 5 $(BURST) --picture docs/pictures/curve.svg
	@$(BIN)/python docs/pictures/make_audit.py > docs/pictures/audit.svg.new && mv docs/pictures/audit.svg.new docs/pictures/audit.svg
	@$(BIN)/python docs/pictures/make_burst.py > docs/pictures/burst.svg.new && mv docs/pictures/burst.svg.new docs/pictures/burst.svg
	@$(BIN)/python docs/pictures/make_components.py > docs/pictures/components.svg.new && mv docs/pictures/components.svg.new docs/pictures/components.svg
	@$(BIN)/python docs/pictures/make_forms.py > docs/pictures/forms.svg.new && mv docs/pictures/forms.svg.new docs/pictures/forms.svg
	@$(BIN)/python docs/pictures/make_architecture.py

screenshots: $(READY) $(BROWSER)
	@$(BIN)/python -m e2e.screenshots

# The pictures and lists of docs/architecture.md alone: they follow imports, docstrings of packages, and the page's tables.
architecture: $(READY)
	@$(BIN)/python docs/pictures/make_architecture.py

example: $(READY)
	@$(BIN)/python examples/make_cluster.py > examples/cluster.json

# No addresses in the locks: where packages come from is the machine's business. ARGS=--upgrade takes newer versions.
COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 $(ARGS)
locks: | $(UV)
	@$(COMPILE) pyproject.toml --extra nats --extra redis --extra kafka --output-file requirements/run.txt
	@$(COMPILE) pyproject.toml --group dev --output-file requirements/dev.txt
	@echo uv | $(COMPILE) - --output-file requirements/uv.txt
	@$(COMPILE) requirements/browser.in --constraint requirements/dev.txt --output-file requirements/browser.txt
	@$(COMPILE) requirements/fuzz.in --constraint requirements/dev.txt --output-file requirements/fuzz.txt
	@$(COMPILE) requirements/krew.in --constraint requirements/dev.txt --output-file requirements/krew.txt
	@echo 'hatchling>=1.27' | $(COMPILE) - --output-file requirements/build.txt

clean:
	@rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage htmlcov dist build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
