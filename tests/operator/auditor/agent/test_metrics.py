"""What Prometheus gets from an agent: series of what has a limit and was measured, and the counts of all else."""

from dataclasses import replace

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import Window, WindowState
from slack.audit.kernel.quota_bugs import kernel_verdict
from slack_operator.auditor import metric_definitions
from slack_operator.auditor.agent.metrics import AgentFigures, AgentTotals, registry

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
NODES = {"": CgroupNodeFacts(4)}
API = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod1/c1", pod_uid="1", container_id="c1" * 32)


def window(target: CgroupTarget, state: WindowState = WindowState.MEASURED, throttled: int = 1500) -> Window:
    """300 s of a container at 0.2 cores, half of its periods throttled for 80 ms on one CPU."""
    return Window(target, state, 300.0, 20_000, 100_000, False, 3000, throttled, throttled * 80_000_000, 55_000_000_000)


def scraped(look: AgentFigures, totals: AgentTotals | None = None) -> Series:
    text = generate_latest(registry(lambda: look, totals or AgentTotals(writes_bursts=True))).decode()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, "Prometheus refuses a scrape with a series twice"
            found[key] = sample.value
    return found


def of(*windows: Window) -> AgentFigures:
    return AgentFigures(findings=judge(windows, NODES))


def named(series: Series, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {labels: value for (family, labels), value in series.items() if family == name}


def test_a_throttled_container_has_both_numbers_and_the_stop() -> None:
    target = CgroupTarget(CgroupLevel.CONTAINER, API.path, "", "1", API.container_id, "shop", "api-0", "api")
    series = scraped(of(window(target)))
    labels = tuple(
        sorted({"level": "container", "namespace": "shop", "pod": "api-0", "container": "api", "window": "5m"}.items())
    )
    assert named(series, "slack_audit_throttled_periods_ratio") == {labels: 0.5}
    assert named(series, "slack_audit_time_lost_ratio") == {labels: pytest.approx(0.4)}
    assert named(series, "slack_audit_stop_seconds") == {labels: pytest.approx(0.08)}
    assert named(series, "slack_audit_use_cores") == {labels: pytest.approx(55 / 300)}
    assert named(series, "slack_audit_limit_cores") == {labels: pytest.approx(0.2)}
    assert named(series, "slack_audit_lost_cores") == {labels: pytest.approx(0.4)}


def test_the_neighbours_share_is_of_every_container_whose_pressure_is_known() -> None:
    free = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod2/c2", "", "2", "c2" * 32, "shop", "web-0", "web")
    old = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod3/c3", "", "3", "c3" * 32, "shop", "old-0", "old")
    series = scraped(
        of(
            replace(window(API), waiting_ns=180 * 10**9, stalled_ns=150 * 10**9),
            Window(free, WindowState.NO_LIMIT, 300.0, None, 100_000, waiting_ns=120 * 10**9, stalled_ns=90 * 10**9),
            Window(old, WindowState.NO_LIMIT, 300.0, None, 100_000, waiting_ns=120 * 10**9),
        )
    )
    shares = {dict(row)["container"]: value for row, value in named(series, "slack_audit_neighbours_ratio").items()}
    # Half of the time stalled, less the 40 % that its quota took.
    assert shares == {API.container_id[:12]: pytest.approx(0.1), "web": pytest.approx(0.3)}
    assert len(named(series, "slack_audit_time_lost_ratio")) == 1, "what has no limit has no other series"


def test_a_container_that_was_not_throttled_has_zeros_and_one_that_cannot_be_judged_has_none() -> None:
    others = [
        window(CgroupTarget(CgroupLevel.CONTAINER, f"/kubepods/pod{i}/x", pod_uid=f"{i}", container_id="x"), state)
        for i, state in enumerate(WindowState)
        if state is not WindowState.MEASURED
    ]
    series = named(scraped(of(window(API, throttled=0), *others)), "slack_audit_time_lost_ratio")
    assert list(series.values()) == [0.0]


def test_a_restarted_container_of_the_same_name_is_one_series_with_the_worse_figures() -> None:
    twins = [
        CgroupTarget(CgroupLevel.CONTAINER, f"/kubepods/pod1/{letter}", "", "1", letter * 64, "shop", "api-0", "api")
        for letter in "ab"
    ]
    series = named(
        scraped(of(window(twins[0], throttled=300), window(twins[1]))), "slack_audit_throttled_periods_ratio"
    )
    assert list(series.values()) == [0.5]


def test_levels_above_the_pods_are_told_apart_by_their_paths_and_bytes_that_are_no_text_do_no_harm() -> None:
    targets = [
        CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable"),
        CgroupTarget(CgroupLevel.QOS, "/kubepods/besteffort"),
    ]
    odd = CgroupTarget(CgroupLevel.OTHER, "/\udcff.slice")
    series = named(scraped(of(*[window(target) for target in (*targets, odd)])), "slack_audit_limit_cores")
    assert {dict(labels)["container"] for labels in series} == {
        "/kubepods/burstable",
        "/kubepods/besteffort",
        "/?.slice",
    }


def test_every_family_is_declared_and_every_declared_family_is_there() -> None:
    look = AgentFigures(
        findings=judge([replace(window(API), waiting_ns=60 * 10**9, stalled_ns=50 * 10**9)], NODES),
        states={WindowState.MEASURED: 1},
        cpus=4,
        use_cores=1.5,
        verdict=kernel_verdict("5.3.0"),
        pressure_seconds=12.5,
    )
    text = generate_latest(registry(lambda: look, AgentTotals(writes_bursts=True))).decode()
    found = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type, family.documentation)
        for family in text_string_to_metric_families(text)
        if not family.name.startswith(("process_", "slack_build"))
    }
    assert found == {(family.name, family.type, family.help) for family in metric_definitions.AGENT_FAMILIES}
    series = scraped(look)
    for family in metric_definitions.AGENT_FAMILIES:
        assert {tuple(sorted(family.labels))} == {
            tuple(name for name, _ in labels) for labels in named(series, family.name)
        }


def test_a_kernel_that_the_table_does_not_know_has_no_verdict() -> None:
    assert named(scraped(AgentFigures(verdict=kernel_verdict("4.19.0-6-amd64"))), "slack_audit_kernel_affected") == {}
    affected = named(scraped(AgentFigures(verdict=kernel_verdict("5.3.0"))), "slack_audit_kernel_affected")
    assert affected == {(("bug", "clock drift"),): 0.0, (("bug", "slice expiry"),): 1.0}
    fixed = named(scraped(AgentFigures(verdict=kernel_verdict("6.1.0"))), "slack_audit_kernel_affected")
    assert set(fixed.values()) == {0.0}


def test_counters_begin_at_zero_so_that_rates_see_the_first_event() -> None:
    series = scraped(AgentFigures())
    assert named(series, "slack_audit_reports_total") == {
        (("outcome", outcome),): 0.0 for outcome in ("sent", "refused", "failed")
    }
    assert len(named(series, "slack_audit_read_troubles_total")) == 5
    assert named(scraped(AgentFigures(), AgentTotals(writes_bursts=False)), "slack_audit_burst_writes_total") == {}
