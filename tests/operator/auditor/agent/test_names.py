"""Names that the controller tells: asked for once, kept while the cgroups live, replaced by ids where nobody knows."""

import pytest

from slack.audit.api.messages import PodName
from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack_operator.auditor.agent.names import ASK_AGAIN_SECONDS, NameBook, shown


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> NameBook:
    return NameBook(clock)


POD = CgroupTarget(CgroupLevel.POD, "/kubepods/pod1", pod_uid="1")
API = CgroupTarget(
    CgroupLevel.CONTAINER, "/kubepods/pod1/aaaabbbbccccdddd", pod_uid="1", container_id="aaaabbbbccccdddd"
)
SANDBOX = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod1/ffff", pod_uid="1", container_id="ffff")
SHOP = PodName(namespace="shop", name="api-0", containers={API.container_id: "api"})


def test_a_pod_is_asked_for_until_somebody_knows_it(book: NameBook) -> None:
    book.see([POD, API])
    assert book.unnamed() == ("1",)
    book.update_names({}, ["1"])
    assert book.unnamed() == ("1",)
    book.update_names({"1": SHOP}, ["1"])
    assert book.unnamed() == ()
    assert shown(book.named(API)) == ("shop", "api-0", "api")
    assert shown(book.named(POD)) == ("shop", "api-0", "")


def test_a_container_that_started_later_is_asked_for_at_once(book: NameBook) -> None:
    book.see([POD, API])
    book.update_names({"1": SHOP}, ["1"])
    book.see([POD, API, CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod1/b", pod_uid="1", container_id="b")])
    assert book.unnamed() == ("1",)


def test_a_sandbox_which_has_no_name_is_not_asked_for_every_minute(book: NameBook, clock: Clock) -> None:
    book.see([POD, API, SANDBOX])
    book.update_names({"1": SHOP}, book.unnamed())
    assert book.unnamed() == ()
    clock.now += ASK_AGAIN_SECONDS
    assert book.unnamed() == ("1",)
    assert shown(book.named(SANDBOX)) == ("shop", "api-0", "ffff")


def test_names_go_with_their_cgroups(book: NameBook) -> None:
    book.see([POD, API])
    book.update_names({"1": SHOP}, ["1"])
    book.see([])
    book.see([POD, API])
    assert book.unnamed() == ("1",)
    assert shown(book.named(POD)) == ("", "1", "")


def test_an_answer_about_what_has_gone_or_was_never_here_is_not_kept(book: NameBook) -> None:
    book.see([POD])
    book.update_names({"2": SHOP}, ["2"])
    book.see([POD, CgroupTarget(CgroupLevel.POD, "/kubepods/pod2", pod_uid="2")])
    assert book.unnamed() == ("1", "2")


def test_without_names_ids_and_paths_stand_for_them() -> None:
    assert shown(API) == ("", "1", "aaaabbbbcccc")
    assert shown(CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable")) == ("", "", "/kubepods/burstable")
    assert shown(CgroupTarget(CgroupLevel.OTHER, "/system.slice/a.service")) == ("", "", "/system.slice/a.service")
