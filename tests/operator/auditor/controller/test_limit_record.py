"""The record of former limits: what is believed, what is kept of it, and what a pod's own words are worth."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from slack.audit.enforcement.raised_limits import FormerLimit, write_former
from slack.audit.sources.pods import AuditedPodFacts
from slack.kube.errors import ApiError
from slack_operator.auditor.controller import limit_record
from tests.operator.auditor.controller.test_enforcing import Hands

ANNOTATION = "audit.resource-slack.io/former-limits"


@pytest.fixture
def hands() -> Hands:
    return Hands()


def annotated(hands: Hands, limit: str, raised: str) -> None:
    hands.server.annotations[ANNOTATION] = str(write_former({"api": FormerLimit(limit, raised, 1.0)}))
    hands.show_pod()


def test_what_a_pod_says_of_itself_is_nothing_once_there_is_a_record(hands: Hands) -> None:
    hands.server.limit = "1"
    annotated(hands, "64", "1")
    assert hands.turn("Revert").raised == 0
    annotated(hands, "500m", "1")
    assert hands.turn("Revert").raised == 0
    assert (hands.server.limit, hands.server.sent) == ("1", [])


def test_an_annotation_cannot_hide_what_was_added(hands: Hands) -> None:
    hands.raised()
    annotated(hands, "1", "1")
    now = hands.turn()
    assert (now.raised, now.added_millis) == (1, 500)


def test_a_pod_that_claims_the_cgroup_of_one_that_is_gone_has_nothing_of_it(hands: Hands) -> None:
    hands.has_recorded(api=FormerLimit("250m", "500m", 1.0))
    hands.server.annotations["kubernetes.io/config.hash"] = "uid-z"
    hands.server.data = {"uid-z": (hands.server.data or {})["uid-a"]}
    hands.show_pod()
    assert hands.turn("Revert").raised == 0
    assert (hands.server.limit, hands.server.data) == ("500m", {})


def test_annotations_of_an_earlier_release_are_taken_over_once(hands: Hands) -> None:
    hands.server.data = None
    hands.server.limit = "1"
    annotated(hands, "500m", "1")
    now = hands.turn("DryRun")
    assert (now.raised, now.added_millis) == (1, 500)
    assert hands.server.recorded()["api"].limit == "500m"
    assert hands.view.annotated() == {}
    hands.turn("Revert")
    assert hands.server.limit == "500m"
    assert hands.server.data == {}


def test_a_forged_annotation_raises_nothing_at_the_first_start_either(hands: Hands) -> None:
    hands.server.data = None
    hands.server.limit = "1"
    annotated(hands, "64", "1")
    assert hands.turn("Revert").raised == 0
    assert hands.server.limit == "1"
    assert hands.server.data == {}


def test_an_annotation_costs_no_memory_but_for_what_can_be_taken_over(hands: Hands) -> None:
    """While policies only report, annotations are kept: a tenant may write 16 KiB on each of its pods."""
    hands.server.limit = "1"
    former = {f"none-{n}": FormerLimit("500m", "1", 1.0) for n in range(200)}
    hands.server.annotations[ANNOTATION] = str(write_former(former))
    hands.show_pod()
    assert hands.view.annotated() == {}
    former = {"api": FormerLimit("500m", "1", 1.0, "p" * 253), "none": FormerLimit("500m", "1", 1.0)}
    hands.server.annotations[ANNOTATION] = str(write_former(former))
    hands.show_pod()
    assert hands.view.annotated() == {"uid-a": write_former({"api": FormerLimit("500m", "1", 1.0)})}


def test_a_record_that_cannot_be_read_stops_raises_and_is_tried_again_each_minute(hands: Hands) -> None:
    hands.server.refuse["get"] = ApiError(403, "Forbidden", "may not get configmaps")
    now = hands.turn()
    assert "may not get configmaps" in (now.refused or "")
    hands.server.refuse.clear()
    assert hands.turn().refused is not None
    assert hands.server.sent == []
    hands.clock.now += limit_record.AGAIN_SECONDS
    hands.turn()
    assert hands.server.sent == ["dry 1"]


def test_policies_that_only_report_make_no_record(hands: Hands) -> None:
    hands.server.data = None
    assert hands.turn("Report").refused is None
    assert (hands.server.data, hands.server.sent) == (None, [])
    hands.turn()
    assert hands.server.data == {}


def test_a_record_that_was_deleted_is_made_again_from_memory(hands: Hands) -> None:
    hands.has_recorded(proxy=FormerLimit("1", "2", 1.0))
    hands.turn()
    hands.server.data = None
    hands.wall.now += 901
    hands.turn()
    assert set(hands.server.recorded()) == {"api", "proxy"}
    assert hands.server.limit == "1"


def test_a_record_that_somebody_made_meanwhile_is_read(hands: Hands) -> None:
    hands.server.data = None
    hands.server.refuse["create"] = ApiError(409, "AlreadyExists", "already exists")
    assert "already exists" in (hands.turn().refused or "")
    hands.server.refuse.clear()
    hands.has_recorded(api=FormerLimit("250m", "500m", 1.0))
    assert hands.turn().added_millis == 250


def test_entries_of_pods_that_are_gone_go(hands: Hands) -> None:
    hands.has_recorded(api=FormerLimit("250m", "500m", 1.0))
    assert hands.server.data is not None
    value = hands.server.data["uid-a"]
    hands.server.data |= {f"uid-gone-{n}": value for n in range(2 * limit_record.MAX_FORGOTTEN)}
    hands.turn("Report")
    hands.turn("Report")
    assert set(hands.server.data) == {"uid-a"}
    assert len(hands.record) == 1


def test_a_full_record_stops_raises_and_says_so(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_record, "MAX_RECORD_BYTES", 50)
    hands.turn()
    hands.wall.now += 901
    now = hands.turn()
    assert "is full" in (now.refused or "")
    assert (hands.server.limit, hands.server.data) == ("500m", {})


def test_the_largest_record_stays_below_what_a_config_map_holds() -> None:
    """Its size in bytes as the API server counts it: keys and values."""
    server: Any = _Kept()
    record = limit_record.LimitRecord(server, "ours", may_write=lambda: True)
    hands = Hands()
    assert record.read(hands.view, 0.0, acting=True) is None
    known = hands.view.pod("uid-a")
    assert known is not None
    pods = (_with_uid(known, f"{n:08d}-0000-0000-0000-000000000000") for n in range(10_000))
    with pytest.raises(limit_record.RecordFull):
        _put_all(record, pods)
    assert 3000 < len(record) < 10_000
    assert sum(len(key) + len(value) for key, value in server.data.items()) <= limit_record.MAX_RECORD_BYTES


def test_an_entry_that_cannot_be_read_is_skipped_and_the_others_count(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    hands.has_recorded(api=FormerLimit("250m", "500m", 1.0))
    assert hands.server.data is not None
    hands.server.data |= {"broken": "{", "other": json.dumps({"pod": "a", "containers": {"api": 7}})}
    assert hands.turn("Report").raised == 1
    assert caplog.text.count("cannot be read and is ignored") == 2


class _Kept:
    """An API server with the record alone."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    def get(self, path: str) -> dict[str, Any]:
        return {"data": self.data}

    def merge_patch(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        self.data |= patch["data"]
        return patch


def _put_all(record: limit_record.LimitRecord, pods: Iterable[AuditedPodFacts]) -> None:
    for pod in pods:
        record.put(pod, "api", FormerLimit("500m", "1", 1.0, "default", "500m"))


def _with_uid(pod: AuditedPodFacts, uid: str) -> AuditedPodFacts:
    return msgspec.structs.replace(pod, uid=uid)
