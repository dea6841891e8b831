"""Who leads in a namespace that has two releases, and during an upgrade from a version with another lease name."""

import logging
from collections.abc import Iterator

import pytest

from slack.kube.connection import Connection
from slack.process.stopping import Stopping
from slack_operator.runtime.leading import Leadership
from tests.kube.fake_api import FakeApi, eventually


@pytest.fixture
def connection() -> Iterator[Connection]:
    with FakeApi() as api:
        connection = api.connection()
        yield connection
        connection.close()


def leadership(connection: Connection, pod: str, monkeypatch: pytest.MonkeyPatch) -> Leadership:
    monkeypatch.setenv("POD_NAME", pod)
    return Leadership(connection, Stopping(), namespace="n", lease_name="resource-slack", elect=True)


def test_the_usual_release_leads_at_once(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = leadership(connection, "resource-slack-5d8f7c9b4-aaaaa", monkeypatch)
    usual.start(lambda: None)
    eventually(usual.may_write)
    usual.close()


def test_a_release_whose_earlier_version_had_another_lease_waits_for_that_one_to_stop(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = leadership(connection, "mine-resource-slack-5d8f7c9b4-aaaaa", monkeypatch)
    other.start(lambda: None)
    eventually(lambda: other.leader == other.identity)
    assert not other.may_write()
    other.close()


def test_of_two_releases_in_a_namespace_one_leads_and_the_other_says_who(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = leadership(connection, "resource-slack-5d8f7c9b4-aaaaa", monkeypatch)
    replica = leadership(connection, "resource-slack-5d8f7c9b4-bbbbb", monkeypatch)
    second = leadership(connection, "mine-resource-slack-6b7c8d9e-ccccc", monkeypatch)
    first.start(lambda: None)
    eventually(first.may_write)
    with caplog.at_level(logging.WARNING):
        replica.start(lambda: None)
        eventually(lambda: replica.leader == first.identity)
        assert caplog.records == []
        second.start(lambda: None)
        eventually(lambda: bool(caplog.records))
    assert "another installation leads in this namespace" in caplog.text
    assert not second.may_write()
    for each in (second, replica, first):
        each.close()
