"""Metrics, rules, alerts and dashboard against the real operator and the real Prometheus, with a burst in between."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import pytest
import urllib3
import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.errors import UnavailableError
from e2e.harness.monitoring import throttling_cases
from e2e.harness.monitoring.prometheus import Prometheus, promtool
from e2e.harness.objects import create_all, deployment, wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product import audit_controller
from e2e.harness.product.full_machines import create_three_busy_nodes
from e2e.harness.product.operator import Operator, binding_seconds, policy, wait_until_placed
from slack_operator.auditor.metric_definitions import AGENT_FAMILIES, CONTROLLER_FAMILIES
from slack_operator.placeholders.report.metrics import described
from tests.audit.tree import TREES, unpack
from tests.operator import on_call
from tests.tools.monitoring.promql import family_of, metric_names
from tools.monitoring.dashboard import panels
from tools.monitoring.rules import GROUPS, RULE_FILE, alerts, recordings

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "resource-slack" / "rules" / "resource-slack.yaml"
RULE_TESTS = ROOT / "e2e" / "monitoring" / "rules.yaml"
RATE_SECONDS = 120
"""Longer than it takes on a slow machine from the burst to the first query of it."""
WITHOUT_DATA = {"Other resources", "Objectives", "Cost per month", "CapacityBuffers", "Chunks of CapacityBuffers"}
"""Panels that are empty on a cluster without such resources, without a policy that has an objective, and without
CapacityBuffers; of the cost a month one of two queries answers, by whether there are prices."""
PRICES = '--prices={"currency": "EUR", "cpu": 0.03, "memory": 0.004}'
NOT_SERVED = {"slack_capacity_buffers", "slack_capacity_buffer_chunks"}
"""An operator that serves no CapacityBuffers has no series of them."""
WITHOUT_KUBELET = {"Failed probes"}
AUDIT = alerts(GROUPS, "resource-slack.cpu-limits")
OF_OPERATOR = alerts(GROUPS, "resource-slack.operator", "resource-slack.policies")
NOT_INSTALLED = {alert.name for alert in alerts(GROUPS) if alert not in OF_OPERATOR and "absent(" in alert.expression}
"""What fires where only the operator is: its release has no rules of companions."""


@pytest.fixture(autouse=True)
def _tools() -> None:
    try:
        build.ensure(["prometheus", "promtool"])
    except UnavailableError as error:
        pytest.skip(str(error))


class Scraped(Protocol):
    """A process with metrics."""

    @property
    def port(self) -> int:
        """Where its /metrics is."""


class Agent:
    """An agent of the auditor on a recorded tree, that goes from one moment to the next."""

    def __init__(self, cluster: Backend, tree: str) -> None:
        self.port = free_port()
        self._tree = tree
        self._root = cluster.run_folder / "node"
        self._root.mkdir()
        command = [
            str(Path(sys.executable).with_name("resource-slack")),
            *("audit", "agent", f"--root={self._root}", f"--state-dir={cluster.run_folder}"),
            *(f"--listen={LOOPBACK}:{self.port}", "--interval=1s"),
        ]
        self._program = Program("audit-agent", command, cluster.run_folder, {"COVERAGE_PROCESS_START": ""})

    def page(self) -> str:
        """Return its /metrics."""
        return urllib3.request("GET", f"http://{LOOPBACK}:{self.port}/metrics", timeout=5.0).data.decode()

    def go_on(self) -> None:
        """Show the later moment."""
        unpack(TREES / f"{self._tree}.after.tree", self._root)

    def __enter__(self) -> Self:
        unpack(TREES / f"{self._tree}.before.tree", self._root)
        self._program.start()
        self._program.wait_until_ready(self._ready, 30.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stop(seconds=15.0)

    def _ready(self) -> bool:
        try:
            return urllib3.request("GET", f"http://{LOOPBACK}:{self.port}/readyz", retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False


class OperatorPrometheus(Prometheus):
    """A Prometheus that scrapes operators, or the auditor, every second, and evaluates the chart's rules."""

    def __init__(self, cluster: Backend, *processes: Scraped) -> None:
        super().__init__(cluster, scrape_seconds=1, scheduler=False)
        self._targets = [f"{LOOPBACK}:{process.port}" for process in processes]

    def start(self) -> Self:
        """Start Prometheus alone: kube-state-metrics has no part in this."""
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        self.configuration.write_text(yaml.safe_dump(self._document(0)), encoding="utf-8")
        storage = self._cluster.run_folder / f"prometheus-{port}"
        command = [
            str(build.ensure(["prometheus"])["prometheus"]),
            f"--config.file={self.configuration}",
            f"--storage.tsdb.path={storage}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--log.level=warn",
        ]
        try:
            self._run("prometheus", command, f"{self.url}/-/ready")
            wait_until(lambda: len(self.query("up == 1")) == len(self._targets), 30, "targets to be up")
        except BaseException:
            self.stop()
            raise
        return self

    def get(self, path: str) -> Any:
        """Return the data of one of Prometheus' own pages."""
        answer = urllib3.request("GET", f"{self.url}{path}", timeout=10.0)
        return json.loads(answer.data)["data"]

    def _document(self, metrics_port: int) -> Json:
        document = super()._document(metrics_port)
        document["global"]["evaluation_interval"] = "1s"
        # As the PodMonitors have it: namespace, pod and container are those of the pods that are audited.
        job = {"job_name": "resource-slack", "honor_labels": True, "static_configs": [{"targets": self._targets}]}
        return {**document, "scrape_configs": [job], "rule_files": [str(RULE_FILE)]}


def _queries(component: str = "operator") -> Iterator[tuple[str, str]]:
    """Yield title and expression of the queries of a component's dashboard, with variables filled in."""
    values = {"__rate_interval": f"{RATE_SECONDS}s", "job": "(resource-slack)", "policy": "(default)"}
    for panel in panels(component):
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in {**values, "cluster": ".*", "namespace": ".*"}.items():
                expression = expression.replace(f"${name}", value)
            yield panel["title"], expression


def test_rules_are_valid_and_every_alert_fires_when_it_should_and_only_then() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(RULE_TESTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_on_call_one_alert_fires_for_each_trouble_and_none_for_what_is_calm(tmp_path: Path) -> None:
    """The scenes of tests/operator/on_call.py, of which unit tests hold what kubectl, `status` and the page say."""
    # Of companions that are not there the absence is no trouble: a release loads the rules of what it has.
    names = [alert.name for alert in alerts(GROUPS) if alert not in AUDIT and alert.name not in NOT_INSTALLED]
    tests = tmp_path / "tests.yaml"
    tests.write_text(json.dumps(on_call.promtool_tests([str(RULES)], names)), encoding="utf-8")
    tested = promtool("test", "rules", str(tests))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_rules_and_dashboard_read_what_the_running_operator_exports(cluster: Backend) -> None:
    api = cluster.api
    create_three_busy_nodes(api)
    with Operator(cluster, PRICES) as operator, Operator(cluster, PRICES, name="standby") as standby:
        api.create(policy("default", extraCapacity={"minRate": 0.25}))
        operator.wait_until_ready()
        standby.wait_until_ready()
        wait_until_placed(api, "default")
        with OperatorPrometheus(cluster, operator, standby) as prometheus:
            started = binding_seconds(
                api, lambda: api.create(deployment("burst", 2, cpu="800m", memory="1Gi")), 2, 20, "burst"
            )
            ratio = "slack:instant_start_in_slack:ratio_rate1h"
            wait_until(lambda: prometheus.query(ratio), 30, "the burst in the recording rules")
            assert float(prometheus.query(ratio)[0]["value"][1]) == 1.0, f"bound after {started} s"
            _one_process_tells_of_policies(prometheus)
            _every_query_answers(prometheus)
            _rules_are_well(prometheus)
        pages = [replica.get("/metrics")[1] for replica in (operator, standby)]
    for page in pages:
        _names_are_good(page)
    exported = {sample.name for page in pages for family in _families(page) for sample in family.samples}
    families = {family.name for page in pages for family in _families(page)}
    expressions = [alert.expression for alert in OF_OPERATOR]
    expressions += [recording.expression for recording in recordings(GROUPS)] + [
        expression for _, expression in _queries()
    ]
    wanted = set().union(*map(metric_names, expressions))
    # A family without series is exported by its type and help alone: nobody wants a GPU here, and no policy has an
    # objective.
    empty = {name for name in families if name.endswith("_extended_resources") or name.startswith("slack_objective_")}
    assert wanted - exported <= empty | NOT_SERVED
    known = {family.name.removesuffix("_total") for family in described()}
    assert known <= families


def test_a_rule_on_periods_alone_is_wrong_both_ways_and_the_audits_alerts_are_not(tmp_path: Path) -> None:
    """Measured runs, evaluated by Prometheus; docs/cpu-audit-alerts.md shows them."""
    periods, tests = tmp_path / "periods.yaml", tmp_path / "tests.yaml"
    periods.write_text(yaml.safe_dump(throttling_cases.period_rule()), encoding="utf-8")
    document = throttling_cases.promtool_tests(throttling_cases.cases(), [periods, RULES])
    tests.write_text(yaml.safe_dump(document), encoding="utf-8")
    tested = promtool("test", "rules", str(tests))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_audits_rules_and_row_read_what_agent_and_controller_export(cluster: Backend) -> None:
    create_all(cluster.api, [kwok.node("node-0")])
    with (
        Agent(cluster, "v2-6.12") as agent,
        audit_controller.Controller(cluster, audit_controller.install(cluster)) as controller,
        OperatorPrometheus(cluster, agent, controller) as prometheus,
    ):
        agent.go_on()
        controller.wait_until_ready()
        waited = {
            "slack_audit_time_lost_ratio",
            "rate(slack_audit_node_cpu_pressure_seconds_total[30s])",
            "slack_audit_nodes",
        }
        for expression in waited:
            wait_until(partial(prometheus.query, expression), 30, expression)
        answers = {(title, query): prometheus.query(query) for title, query in _queries("audit")}
        assert {title for (title, _), found in answers.items() if not found} == WITHOUT_KUBELET
        for alert in AUDIT:
            prometheus.query(alert.expression)
        harmed = {"SlackCpuTimeLost", "SlackPodCpuTimeLost"}
        wait_until(
            lambda: {name for name, state in _states(_rules(prometheus)).items() if state == "pending"} >= harmed,
            30,
            "alerts on the recorded node's containers and pods to be pending",
        )
        assert {rule["health"] for rule in _rules(prometheus)} == {"ok"}
        pages = [agent.page(), controller.get("/metrics")[1]]
    for page in pages:
        _names_are_good(page)
    families = {family.name for page in pages for family in _families(page)}
    expressions = [alert.expression for alert in AUDIT] + [query for _, query in _queries("audit")]
    wanted = {family_of(name).removesuffix("_total") for expression in expressions for name in metric_names(expression)}
    assert wanted - families == {"prober_probe"}
    assert {family.name.removesuffix("_total") for family in (*AGENT_FAMILIES, *CONTROLLER_FAMILIES)} <= families


def _one_process_tells_of_policies(prometheus: OperatorPrometheus) -> None:
    assert prometheus.query("sum(slack_leader)")[0]["value"][1] == "1"
    telling = prometheus.query('count by (instance) ({__name__=~"slack_.*", policy!=""})')
    leading = prometheus.query("slack_leader == 1")
    assert [sample["metric"]["instance"] for sample in telling] == [sample["metric"]["instance"] for sample in leading]


def _every_query_answers(prometheus: OperatorPrometheus) -> None:
    answers: dict[tuple[str, str], list[Json]] = {}

    def silent() -> set[str]:
        # what has answered once counts: rates of a burst are gone when its time is over
        answers.update({query: prometheus.query(query[1]) for query in _queries() if not answers.get(query)})
        return {title for (title, _), found in answers.items() if not found}

    # what is told of a burst comes with the turn after it, and with the scrape after that
    wait_until(lambda: silent() <= WITHOUT_DATA, 20, "every query to answer", lambda: silent() - WITHOUT_DATA)
    shown: dict[str, list[str]] = {}
    for (title, _), found in answers.items():
        shown.setdefault(title, []).extend(sample["value"][1] for sample in found)
    print(
        "\nwhat the dashboard shows:", *(f"{title}: {', '.join(values)}" for title, values in shown.items()), sep="\n  "
    )
    assert shown["Instant starts"] == ["1"]
    assert shown["Leaders"] == ["1"]
    assert all(float(cost) > 0 for title in ("Cost per hour", "Cost per month") for cost in shown[title])
    assert shown["Coverage"] == ["1"]
    stats = {panel["title"] for panel in panels("operator") if panel["type"] == "stat"}
    assert all("NaN" not in shown[title] for title in stats)
    for alert in alerts(GROUPS):
        prometheus.query(alert.expression)


def _rules_are_well(prometheus: OperatorPrometheus) -> None:
    # The nodes are full, so what the burst displaced finds no room: in a quarter of an hour somebody is told.
    wait_until(
        lambda: _states(_rules(prometheus))["ResourceSlackNotSatisfied"] == "pending",
        30,
        "ResourceSlackNotSatisfied to be pending",
    )
    rules = _rules(prometheus)
    assert len(rules) == len(alerts(GROUPS)) + len(recordings(GROUPS))
    assert {rule["health"] for rule in rules} == {"ok"}
    assert "firing" not in _states(rules).values()
    for recording in recordings(GROUPS):
        assert prometheus.query(recording.name), f"{recording.name} has no series"


def _rules(prometheus: OperatorPrometheus) -> list[Json]:
    return [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]


def _states(rules: list[Json]) -> dict[str, str]:
    return {rule["name"]: rule["state"] for rule in rules if rule["type"] == "alerting"}


def _names_are_good(page: str) -> None:
    """What Prometheus' own linter says of names, help texts and units."""
    binary = build.ensure(["promtool"])["promtool"]
    checked = subprocess.run(
        [str(binary), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert not checked.stderr
    assert not re.search(r"_created\b", page)


def _families(page: str) -> list[Any]:
    return list(text_string_to_metric_families(page))
