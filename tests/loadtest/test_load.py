"""What a load is and what is measured of it: by values, without a cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadtest.chart import chart
from slack.loadtest.manifest import deadline_job, deployment, is_expired, owned_by, refusal, until_text
from slack.loadtest.meter import LoadMeter
from slack.loadtest.report import Moment, document, without_repeats
from slack.loadtest.shape import LoadShape, replicas_at


@given(
    st.sampled_from(LoadShape),
    st.integers(1, 5000),
    st.floats(-1, 1e5, allow_nan=False),
    st.floats(0.1, 1e5, allow_nan=False),
)
def test_a_load_never_has_more_pods_than_asked_for(shape: LoadShape, pods: int, elapsed: float, span: float) -> None:
    assert 0 <= replicas_at(shape, pods, elapsed, span) <= pods


def test_a_burst_comes_at_once_a_ramp_by_and_by_and_a_sine_twice() -> None:
    assert [replicas_at(LoadShape.BURST, 8, at, 100) for at in (0, 50, 100)] == [8, 8, 8]
    assert [replicas_at(LoadShape.RAMP, 8, at, 100) for at in (0, 1, 50, 100, 200)] == [0, 1, 4, 8, 8]
    assert [replicas_at(LoadShape.SINE, 8, at, 100) for at in (0, 25, 50, 75, 100)] == [0, 8, 0, 8, 0]


def test_its_pods_are_allowed_where_the_restricted_standard_holds_and_bound_nothing() -> None:
    made = deployment("load", "shop", "pause", {"cpu": "1"}, "run", until_text(1_800_000_000.0))
    spec = made["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["runAsNonRoot"]
    assert "limits" not in container["resources"]
    assert (made["spec"]["replicas"], spec["terminationGracePeriodSeconds"]) == (0, 0)
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] != "resource-slack"


def test_a_refusal_is_the_api_servers_words() -> None:
    said = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    seen = {"status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": said}]}}
    assert refusal(seen) == said
    assert refusal({"status": {}}) is None
    assert refusal({}) is None


def meter() -> LoadMeter:
    seen = LoadMeter(began_at=100.0)
    seen.node_seen("a", 100.0, ready=True)
    seen.placeholder_seen("p1", "a")
    seen.placeholder_seen("p2", None)
    seen.tick(100.0)
    seen.pod_seen("1", None, "", 101.0)
    seen.pod_seen("2", None, "", 101.0)
    seen.pod_seen("1", "a", "", 101.5)
    return seen


def test_a_pod_that_waits_counts_with_the_time_that_it_has_waited() -> None:
    seen = meter()
    seen.pod_seen("2", None, "0/1 nodes are available: insufficient cpu", 102.0)
    report = seen.report(111.0)
    assert (report.waits_seconds, report.unbound, report.instant) == ((0.5, 10.0), 1, 1)
    assert report.waits_for == "0/1 nodes are available: insufficient cpu"
    assert (report.percentile_seconds(50), report.percentile_seconds(99)) == (0.5, 10.0)


def test_the_time_to_ready_is_of_pods_that_were_seen_to_be() -> None:
    seen = meter()
    assert not seen.report(102.0).all_ready
    seen.pod_seen("1", "a", "", 104.0, ready=True)
    seen.pod_seen("1", "a", "", 105.0, ready=True)
    report = seen.report(111.0)
    assert report.ready_seconds == (3.0,)
    assert (report.ready_percentile_seconds(50), report.ready_percentile_seconds(99)) == (3.0, 3.0)
    assert not report.all_ready
    seen.pod_seen("2", "a", "", 112.0, ready=True)
    assert seen.report(113.0).all_ready


def test_a_placeholder_that_leaves_its_node_is_displaced_and_one_that_waits_is_not() -> None:
    seen = meter()
    seen.placeholder_seen("p1", "a", gone=True)
    seen.placeholder_seen("p2", None, gone=True)
    assert seen.report(102.0).displaced == 1
    seen.placeholder_seen("p3", "a")
    seen.ended(103.0)
    seen.placeholder_seen("p3", "a", gone=True)
    assert seen.report(104.0).displaced == 1


def test_a_placeholder_that_made_way_before_the_first_pod_was_there_counts() -> None:
    seen = LoadMeter()
    for name in ("before", "early", "waits"):
        seen.placeholder_seen(name, None if name == "waits" else "a")
    seen.placeholder_seen("before", "a", gone=True)
    seen.began(100.0)
    seen.placeholder_seen("early", "a", gone=True)
    seen.placeholder_seen("waits", None, gone=True)
    assert seen.report(101.0).displaced == 1


def test_nodes_that_come_and_go_are_told() -> None:
    seen = meter()
    seen.node_seen("b", 130.0, ready=True)
    seen.tick(130.0)
    seen.ended(131.0)
    seen.tick(132.0)
    assert seen.report(132.0).nodes_gone_seconds is None
    seen.node_seen("b", 190.0, ready=True, gone=True)
    seen.tick(191.0)
    report = seen.report(191.0)
    assert (report.nodes_before, report.nodes_most, report.nodes_now, report.nodes_gone_seconds) == (1, 2, 1, 60.0)


def test_a_pod_that_was_bound_stays_so_when_it_is_taken_away() -> None:
    seen = meter()
    seen.ended(102.0)
    seen.pod_seen("1", "a", "", 102.5, gone=True)
    seen.pod_seen("2", None, "", 102.5, gone=True)
    assert seen.report(120.0).waits_seconds == (0.5, 1.0)


def test_a_steady_time_is_two_rows() -> None:
    rows = [Moment(float(second), 1 if second < 5 else 2, 0, 0, 3) for second in range(10)]
    assert [row.seconds for row in without_repeats(rows)] == [0.0, 4.0, 5.0, 9.0]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.integers(1, 200))
def test_a_chart_fits_its_columns_and_no_spike_is_lost(nodes: list[int], columns: int) -> None:
    drawn = chart([Moment(float(at), 0, 0, 0, count) for at, count in enumerate(nodes)], columns)
    assert all(len(line) <= max(columns, 32) for line in drawn)
    if max(nodes):
        assert "█" in drawn[0]


def test_the_end_of_the_load_is_marked() -> None:
    drawn = chart([Moment(0.0, 1, 0, 0, 1), Moment(100.0, 0, 0, 0, 1)], 60, ended_seconds=50.0)
    assert any(line.endswith("^ the load ends") for line in drawn)


def test_of_no_pods_there_are_no_figures() -> None:
    shown = document(LoadMeter(0.0).report(1.0))
    assert (shown["pods"], shown["p50_seconds"], shown["instant"]) == (0, None, 0)


@pytest.mark.parametrize("at", [2.0, 2.01])
def test_two_seconds_are_an_instant_start(at: float) -> None:
    seen = LoadMeter(0.0)
    seen.pod_seen("1", None, "", 0.0)
    seen.pod_seen("1", "a", "", at)
    assert seen.report(9.0).instant == (at <= 2.0)


def test_a_load_is_left_over_when_its_deadline_has_passed_and_one_without_a_deadline_never_is() -> None:
    made = deployment("load", "shop", "pause", {"cpu": "1"}, "run", until_text(1_800_000_000.0))
    assert not is_expired(made, 1_799_999_999.0)
    assert is_expired(made, 1_800_000_001.0)
    for text in ("", "soon", None):
        made["metadata"]["annotations"]["resource-slack.io/load-until"] = text or ""
        assert not is_expired(made, 1_900_000_000.0)


@pytest.mark.parametrize("name", ["load", "l" * 63])
def test_the_job_with_the_deadline_makes_no_pod_fails_in_time_and_goes_with_what_it_owns(name: str) -> None:
    job = deadline_job(name, "shop", "pause", {"cpu": "1"}, "run", 600)
    spec = job["spec"]
    assert (spec["parallelism"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, 600, 0)
    assert len(job["metadata"]["name"]) <= 63
    job["metadata"]["uid"] = "u"
    made = owned_by(deployment(name, "shop", "pause", {"cpu": "1"}, "run", until_text(0.0)), job)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", job["metadata"]["name"], "u")
