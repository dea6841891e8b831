"""Which policy a node has, as policies and its labels come, change, are no good and go."""

from collections.abc import Iterator
from typing import Any

import pytest

from slack.throttler.limits import UNLIMITED
from slack_operator.throttler.agent.node_policy import Applied, NodePolicy, PolicyRow, reflectors
from tests.kube.fake_api import FakeApi

GROUP = "/apis/resource-slack.io/v1alpha1/throttlepolicies"


def row(name: str, generation: int = 1, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> PolicyRow:
    """Return a policy as the API server has it."""
    return PolicyRow({"name": name, "uid": name, "generation": generation, "creationTimestamp": created}, spec)


@pytest.fixture
def seen() -> list[Applied]:
    return []


@pytest.fixture
def policy(seen: list[Applied]) -> NodePolicy:
    return NodePolicy(4, seen.append)


def rows(*found: PolicyRow) -> dict[str, PolicyRow]:
    """Return them by name."""
    return {found_row.name: found_row for found_row in found}


def test_nothing_is_gone_by_until_both_labels_and_policies_are_known(policy: NodePolicy, seen: list[Applied]) -> None:
    policy.set_policies(rows(row("default")))
    assert seen == []
    assert policy.applied is None
    policy.set_labels({})
    assert [(applied.policy, applied.limits.slots) for applied in seen] == [("default", 12)]


def test_the_more_specific_policy_wins_and_follows_the_node_s_labels(policy: NodePolicy, seen: list[Applied]) -> None:
    spec: dict[str, Any] = {"nodeSelector": {"pool": "db"}, "maxStartingContainersPerCore": "1"}
    policy.set_labels({"pool": "db"})
    policy.set_policies(rows(row("default"), row("db", **spec)))
    policy.set_labels({"pool": "web"})
    policy.set_labels({"pool": "web", "other": "label"})
    assert [(applied.policy, applied.limits.slots) for applied in seen] == [("db", 4), ("default", 12)]


def test_a_change_is_told_once_and_a_policy_that_goes_leaves_no_limit(policy: NodePolicy, seen: list[Applied]) -> None:
    policy.set_labels({})
    policy.set_policies(rows(row("default")))
    policy.set_policies(rows(row("default")))
    policy.set_policies(rows(row("default", 2, maxRate=None)))
    policy.set_policies({})
    assert [applied.generation for applied in seen] == [1, 2, 0]
    assert seen[1].limits.gap_seconds == 0.0
    assert seen[2] == Applied(None, 0, UNLIMITED)


def test_a_policy_that_cannot_be_read_leaves_what_it_was_and_never_lifts_all_limits(
    policy: NodePolicy, seen: list[Applied], caplog: pytest.LogCaptureFixture
) -> None:
    policy.set_labels({})
    policy.set_policies(rows(row("default", maxCPU="50%")))
    for generation in (2, 3):
        policy.set_policies(rows(row("default", generation, ofTomorrow=1)))
    assert [applied.limits.max_cpu for applied in seen] == [0.5]
    assert caplog.text.count("ofTomorrow") == 1, "told once"
    policy.set_policies(rows(row("default", 4, maxCPU="60%")))
    assert seen[-1].limits.max_cpu == 0.6


def test_where_labels_may_not_be_read_the_policies_of_all_nodes_hold_until_they_may(
    policy: NodePolicy, seen: list[Applied]
) -> None:
    spec: dict[str, Any] = {"nodeSelector": {"pool": "db"}, "maxStartingContainersPerCore": "1"}
    policy.set_policies(rows(row("default"), row("db", **spec)))
    assert policy.do_without_labels()
    assert not policy.do_without_labels()
    policy.set_labels({"pool": "db"})
    assert not policy.do_without_labels()
    assert [applied.policy for applied in seen] == ["default", "db"]


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as running:
        yield running


def test_policies_and_the_node_are_followed_at_the_api_server(api: FakeApi) -> None:
    import threading

    changed = threading.Condition()
    seen: list[Applied] = []

    def change(applied: Applied) -> None:
        with changed:
            seen.append(applied)
            changed.notify_all()

    def wait(name: str | None, slots: int | None) -> None:
        with changed:
            assert changed.wait_for(
                lambda: bool(seen) and (seen[-1].policy, seen[-1].limits.slots) == (name, slots), 20
            )

    def put(name: str, **spec: Any) -> None:
        api.put(f"{GROUP}/{name}", apiVersion="resource-slack.io/v1alpha1", kind="ThrottlePolicy", spec=spec)

    api.put("/api/v1/nodes/n1", metadata={"labels": {"pool": "db"}})
    connection = api.connection()
    following = reflectors(connection, "n1", NodePolicy(2, change))
    for reflector in following:
        reflector.start()
    try:
        wait(None, None)
        put("default")
        wait("default", 6)
        put("db", nodeSelector={"pool": "db"}, maxStartingContainersPerCore="1")
        wait("db", 2)
        api.put("/api/v1/nodes/n1", metadata={"labels": {}})
        wait("default", 6)
        api.remove(f"{GROUP}/default")
        wait(None, None)
    finally:
        for reflector in following:
            reflector.stop()
        connection.close()
