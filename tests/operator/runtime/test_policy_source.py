"""The desired-state map: lists, events, and their races; and what of kopf's troubles reaches a user's log."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from slack.kube.discovery import CONFIRM_SECONDS, GONE_SECONDS
from slack.kube.errors import ApiError, Unreachable
from slack.kube.object_names import ObjectName
from slack.kube.watch import Undecodable
from slack_operator.placeholders.policies import SLACK_POLICY, DesiredPolicies
from slack_operator.runtime import kopf_watch, policy_source
from slack_operator.runtime.kopf_operator import kopf_registry, kopf_settings
from slack_operator.runtime.kopf_watch import QUIET_SECONDS, KopfLog
from slack_operator.runtime.policy_source import (
    ABSENT_SECONDS,
    ERROR_SECONDS,
    FIRST_SECONDS,
    LIST_SECONDS,
    STALE_SECONDS,
    PolicySource,
)
from tests.kube.fake_api import FakeApi
from tests.operator.fakes import Clock, policy


def desired() -> tuple[DesiredPolicies, list[int]]:
    woken: list[int] = []
    return DesiredPolicies(lambda: woken.append(1)), woken


def listed(policies: DesiredPolicies, *documents: dict[str, Any]) -> bool:
    return policies.replace_all(documents, events_before=policies.events)


def names(policies: DesiredPolicies) -> list[str]:
    return [entry.name for entry in policies.entries()]


def test_an_empty_map_means_nothing_before_the_first_list() -> None:
    policies, woken = desired()
    assert not policies.synced
    assert listed(policies)
    assert policies.synced
    assert woken == [1]


def test_events_put_change_and_drop() -> None:
    policies, woken = desired()
    listed(policies)
    policies.apply(policy("web"))
    policies.apply(policy("web", generation=2, granularity=7))
    (entry,) = policies.entries()
    assert entry.policy is not None
    assert (entry.generation, entry.policy.spec.granularity) == (2, 7)
    policies.drop(policy("web"))
    assert names(policies) == []
    assert len(woken) == 4


def test_our_own_status_write_wakes_nobody_but_is_seen() -> None:
    policies, woken = desired()
    listed(policies, policy("web"))
    before = len(woken)
    policies.apply(policy("web") | {"status": {"pending": 1}})
    assert len(woken) == before
    assert policies.entries()[0].status == {"pending": 1}


def test_a_list_that_events_overtook_is_refused() -> None:
    policies, _ = desired()
    listed(policies, policy("web"))
    before = policies.events
    policies.drop(policy("web"))
    assert not policies.replace_all([policy("web")], events_before=before)
    assert names(policies) == []


def test_a_list_tells_whether_events_had_been_missed() -> None:
    policies, _ = desired()
    listed(policies)
    policies.apply(policy("web"))
    listed(policies, policy("web"))
    assert not policies.changed_by_list
    listed(policies, policy("web"), policy("missed"))
    assert policies.changed_by_list


def test_an_old_event_behind_a_newer_list_changes_nothing() -> None:
    policies, _ = desired()
    listed(policies, policy("web", generation=3))
    policies.apply(policy("web", generation=2))
    assert policies.entries()[0].generation == 3


def test_a_bad_spec_keeps_the_last_good_one_beside_its_problems() -> None:
    policies, _ = desired()
    listed(policies, policy("web", granularity=7))
    policies.apply(policy("web", generation=2, granularity=0, colour="red"))
    (entry,) = policies.entries()
    assert entry.policy is not None
    assert entry.policy.spec.granularity == 7
    assert [problem.split(":")[0] for problem in entry.problems] == ["spec.granularity", "spec.colour"]


def test_a_new_object_of_the_same_name_starts_anew() -> None:
    policies, _ = desired()
    listed(policies, policy("web", generation=5))
    policies.apply(policy("web", uid="another", granularity=0))
    (entry,) = policies.entries()
    assert (entry.uid, entry.generation, entry.policy) == ("another", 1, None)
    policies.drop(policy("web"))
    assert names(policies) == ["web"]


def test_a_policy_that_is_being_deleted_is_gone() -> None:
    policies, _ = desired()
    listed(policies, policy("web"))
    leaving = policy("web")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    policies.apply(leaving)
    assert names(policies) == []


class Lists:
    """A connection that only lists, or fails to."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)

    def request(self, *_: object, **__: object) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


ABSENT = ApiError(404, "NotFound", "no such thing")


@pytest.mark.parametrize(("known", "seconds"), [(False, CONFIRM_SECONDS), (True, GONE_SECONDS)])
def test_without_a_crd_the_map_is_known_to_be_empty_when_that_has_lasted(known: bool, seconds: float) -> None:
    policies, _ = desired()
    if known:
        listed(policies, policy("web"))
    clock = Clock(0.0)
    source = PolicySource(Lists(*[ABSENT] * 6), policies, SLACK_POLICY, clock)  # type: ignore[arg-type]
    assert source.reconcile() == ERROR_SECONDS
    clock.now += seconds - 1.0
    assert source.reconcile() == ERROR_SECONDS
    assert names(policies) == (["web"] if known else [])
    assert policies.synced is known
    clock.now += 1.0
    assert source.reconcile() == ABSENT_SECONDS
    assert names(policies) == []
    assert policies.synced


@pytest.mark.parametrize("known", [False, True])
def test_a_version_that_is_served_no_more_is_trouble_and_no_empty_list(
    known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policies, _ = desired()
    if known:
        listed(policies, policy("web"))
    clock = Clock(0.0)
    group = b'{"versions": [{"groupVersion": "resource-slack.io/v1"}]}'
    kinds = b'{"resources": [{"name": "slackpolicies"}]}'
    source = PolicySource(Lists(*[ABSENT, group, kinds] * 3), policies, SLACK_POLICY, clock)  # type: ignore[arg-type]
    for _ in range(3):
        assert source.reconcile() == ERROR_SECONDS
        clock.now += 10 * GONE_SECONDS
    assert names(policies) == (["web"] if known else [])
    assert policies.synced is known
    assert "slackpolicies cannot be listed" in caplog.text


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("answer", [ApiError(503, "Unavailable", "later"), Unreachable("gone"), b"no JSON"])
def test_discovery_without_an_answer_is_no_empty_list_either(known: bool, answer: bytes | Exception) -> None:
    policies, _ = desired()
    if known:
        listed(policies, policy("web"))
    clock = Clock(0.0)
    source = PolicySource(Lists(*[ABSENT, answer] * 4), policies, SLACK_POLICY, clock)  # type: ignore[arg-type]
    for _ in range(4):
        assert source.reconcile() == ERROR_SECONDS
        clock.now += 10 * GONE_SECONDS
    assert names(policies) == (["web"] if known else [])
    assert policies.synced is known


def page(*items: bytes) -> bytes:
    return b'{"metadata": {"resourceVersion": "7"}, "items": [' + b",".join(items) + b"]}"


def encoded(document: dict[str, Any], deep: int = 0) -> bytes:
    status = b'{"note": ' + b"[" * deep + b"1" + b"]" * deep + b"}"
    return msgspec.json.encode({**document, "status": msgspec.Raw(status)})


@pytest.mark.parametrize("deep", [3000, 960])
def test_an_object_that_cannot_be_decoded_stays_as_it_was_known_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, deep: int
) -> None:
    policies, _ = desired()
    listed(policies, policy("bad", granularity=7), policy("gone"))
    new = policy("bad", generation=2, granularity=9)
    lists = Lists(page(encoded(policy("good")), encoded(new, deep)), page(encoded(new)))
    source = PolicySource(lists, policies, SLACK_POLICY)  # type: ignore[arg-type]  # it only lists
    monkeypatch.setattr(source, "_watch_with_kopf", lambda: None)
    source.reconcile()
    bad, good = policies.entries()
    assert (good.name, good.problems) == ("good", ())
    assert bad.policy is not None
    if deep == 3000:
        assert (bad.policy.spec.granularity, bad.generation, bad.policy_generation) == (7, 2, 1)
        assert bad.problems == ("the object cannot be read: it is nested too deeply",)
        assert list(*source.unreadable().values()) == ["bad"]
    source.reconcile()
    (bad,) = policies.entries()
    assert bad.policy is not None
    assert (bad.policy.spec.granularity, bad.problems, list(*source.unreadable().values())) == (9, (), [])


def test_an_object_that_could_never_be_decoded_has_no_policy_and_is_there() -> None:
    policies, _ = desired()
    bad = Undecodable(ObjectName("web", uid="uid-1", generation=3), "it is nested too deeply")
    assert policies.replace_all([], events_before=policies.events, unreadable=[bad])
    (entry,) = policies.entries()
    assert (entry.name, entry.policy, entry.generation, len(entry.problems)) == ("web", None, 3, 1)
    policies.drop(policy("web", uid="uid-1"))
    assert names(policies) == []


def test_after_a_restored_backup_a_list_is_believed_and_so_are_the_next_edits() -> None:
    policies, _ = desired()

    def size(generation: int, granularity: int) -> tuple[int, int]:
        listed(policies, policy("web", generation=generation, granularity=granularity))
        (entry,) = policies.entries()
        assert entry.policy is not None
        return entry.generation, entry.policy.spec.granularity

    assert size(7, 50) == (7, 50)
    assert size(5, 5) == (5, 5)
    assert size(5, 6) == (5, 6), "edits have brought the generation to where it was between two lists"
    policies.apply(policy("web", generation=5, granularity=8))
    (entry,) = policies.entries()
    assert entry.policy is not None
    assert entry.policy.spec.granularity == 8


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), Unreachable("refused")])
def test_a_list_that_fails_leaves_what_is_known(error: Exception) -> None:
    policies, _ = desired()
    listed(policies, policy("web"))
    source = PolicySource(Lists(error), policies, SLACK_POLICY)  # type: ignore[arg-type]  # it only lists
    assert source.reconcile() == ERROR_SECONDS
    assert names(policies) == ["web"]


def test_what_has_not_been_listed_for_long_counts_as_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_watch.KopfWatch, "start", lambda self: None)
    clock = Clock(1000.0)
    lists: Any = Lists(b'{"metadata": {}, "items": []}', Unreachable("no answer"))
    source = PolicySource(lists, desired()[0], SLACK_POLICY, clock)
    assert source.stale() == "slackpolicies are not listed yet"
    source.reconcile()
    assert source.stale() is None
    clock.now += STALE_SECONDS + 1
    source.reconcile()
    assert source.stale() == "slackpolicies have not been listed for more than 60 s"


def test_kopf_is_loaded_a_moment_after_the_first_list_which_the_first_plan_is_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[int] = []
    policies, _ = desired()
    lists = Lists(*[b'{"metadata": {}, "items": []}'] * 2)
    source = PolicySource(lists, policies, SLACK_POLICY)  # type: ignore[arg-type]  # it only lists
    monkeypatch.setattr(kopf_watch.KopfWatch, "start", lambda self: started.append(1))
    assert source.reconcile() == FIRST_SECONDS
    assert (policies.synced, started) == (True, [])
    assert source.reconcile() == LIST_SECONDS
    assert started == [1]


def test_kopf_is_told_to_watch_only() -> None:
    settings = kopf_settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.peering.standalone
    registry = kopf_registry(desired()[0], Lists(), SLACK_POLICY)  # type: ignore[arg-type]  # it only lists
    handlers = list(registry._changing.get_all_handlers()) + list(registry._spawning.get_all_handlers())
    assert handlers == []
    assert len(list(registry._watching.get_all_handlers())) == 1


class KopfError(Exception):
    """As kopf's APIError."""

    def __init__(self, status: int) -> None:
        super().__init__("page not found")
        self.status = status


@pytest.fixture
def kopf_log() -> Iterator[tuple[KopfLog, Clock]]:
    """What takes kopf's lines in an operator, once it is installed: pytest looks where lines go as a test begins."""
    logger, clock = logging.getLogger("kopf"), Clock(0.0)
    before, propagate, level = list(logger.handlers), logger.propagate, logger.level
    logger.setLevel(logging.WARNING)
    yield KopfLog("slackpolicies", clock), clock
    logger.handlers[:], logger.propagate = before, propagate
    logger.setLevel(level)


def fail(name: str, error: Exception, text: str = "Watcher for slackpolicies has failed") -> None:
    """Log as kopf does."""
    try:
        raise error
    except type(error):
        logging.getLogger(f"kopf._core.reactor.{name}").exception("%s: %s", text, error)


@pytest.mark.parametrize("name", ["orchestration", "running"])
@pytest.mark.parametrize(("level", "shown"), [("WARNING", False), ("DEBUG", True)])
def test_a_deleted_crd_logs_nothing_but_at_debug_level(
    caplog: pytest.LogCaptureFixture, kopf_log: tuple[KopfLog, Clock], name: str, level: str, shown: bool
) -> None:
    kopf_log[0].install()
    with caplog.at_level(level, logger="kopf"):
        fail(name, KopfError(404))
    assert ("Traceback" in caplog.text) is shown
    assert bool(caplog.records) is shown


def test_what_kopf_complains_of_is_told_once_an_outage_in_our_words(
    caplog: pytest.LogCaptureFixture, kopf_log: tuple[KopfLog, Clock]
) -> None:
    handler, clock = kopf_log
    handler.install()
    caplog.set_level(logging.INFO)
    refused = "ClientConnectorError(ConnectionKey(host='127.0.0.1', port=6443), ConnectionRefusedError(111))"
    for attempt in range(3):
        api = logging.getLogger("kopf._cogs.clients.api")
        api.error("Request attempt #%d/9 failed; will retry: GET https://127.0.0.1:6443 -> %s", attempt, refused)
        fail("orchestration", KopfError(503))
        clock.now += 20
        handler.well()  # a list came through between two tries
    assert caplog.messages == ["slackpolicies cannot be watched, which is tried again: no connection to the API server"]
    clock.now += QUIET_SECONDS
    handler.well()
    handler.well()
    assert caplog.messages[1:] == ["slackpolicies are watched again"]
    fail("orchestration", KopfError(403))
    assert caplog.messages[2:] == ["slackpolicies cannot be watched, which is tried again: HTTP 403: page not found"]
    assert "Traceback" not in caplog.text


def test_a_mistake_in_kopf_or_in_our_handler_keeps_its_traceback(
    caplog: pytest.LogCaptureFixture, kopf_log: tuple[KopfLog, Clock]
) -> None:
    kopf_log[0].install()
    fail("running", ZeroDivisionError("of all things"), "Handler 'slackpolicy' failed with an exception")
    assert caplog.messages == ["kopf has failed: Handler 'slackpolicy' failed with an exception: of all things"]
    assert "Traceback" in caplog.text


def test_a_list_that_fails_is_told_once_an_outage_and_its_end_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    policies, _ = desired()
    refused = Unreachable("refused")
    lists = Lists(refused, refused, refused, b'{"metadata": {}, "items": []}', refused)
    source = PolicySource(lists, policies, SLACK_POLICY)  # type: ignore[arg-type]  # it only lists
    monkeypatch.setattr(source, "_watch_with_kopf", lambda: None)
    for _ in range(5):
        source.reconcile()
    told = "slackpolicies cannot be listed: refused"
    assert caplog.messages == [told, "slackpolicies are listed again", told]


def test_kopf_needs_no_user_of_a_name_for_an_images_has_only_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    policies, _ = desired()
    given: dict[str, Any] = {}

    async def operator(**settings: Any) -> None:
        given.update(settings)

    monkeypatch.setattr("slack_operator.runtime.kopf_operator.kopf.operator", operator)
    watch = kopf_watch.KopfWatch(cast("Any", None), policies, SLACK_POLICY)
    watch._run(kopf_watch._Stop())
    assert given["identity"] == "resource-slack"


def test_the_thread_of_a_kopf_that_fails_ends_although_its_worker_waits_for_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def operator(*, stop_flag: threading.Event, **_: Any) -> None:
        waiting = asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)  # as kopf does
        done, _left = await asyncio.wait({waiting}, timeout=0.05)
        assert not done
        raise RuntimeError("a mistake of kopf's")

    monkeypatch.setattr("slack_operator.runtime.kopf_operator.kopf.operator", operator)
    watch = kopf_watch.KopfWatch(cast("Any", None), desired()[0], SLACK_POLICY)
    watch.start()
    try:
        deadline = time.monotonic() + 10
        while not watch.died and time.monotonic() < deadline:
            time.sleep(0.01)
        assert watch.died
    finally:
        watch.stop(5.0)


def test_kopf_is_started_again_when_its_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_source, "ERROR_SECONDS", 0.02)
    started: list[threading.Thread] = []

    def run(watch: kopf_watch.KopfWatch, stop: threading.Event) -> None:
        started.append(threading.current_thread())
        if len(started) > 1:
            stop.wait(20)  # the first one ends by itself

    monkeypatch.setattr(kopf_watch.KopfWatch, "_run", run)
    with FakeApi() as api:
        source = PolicySource(api.connection(), desired()[0], SLACK_POLICY)
        source.start()
        try:
            deadline = time.monotonic() + 20
            while len(started) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(started) == 2
            assert source.unhealthy() is None
        finally:
            source.stop()
