"""Which image is pulled on which node next: by values, without a cluster."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.image_names import full_name, is_image
from slack.planner.warm.choice import (
    COLLECTED_SECONDS,
    DISK_SHARE,
    FIRST_RETRY_SECONDS,
    LISTED_SECONDS,
    LONGEST_RETRY_SECONDS,
    ImagePullOrder,
    WarmLimits,
    WarmNode,
    WarmPulls,
)
from slack.planner.warm.images import UNKNOWN_BYTES, KnownImages, WantedImage, known_images, wanted_images
from tests.cases import run_for_each

GB = 10**9
BIG, SMALL = "r.example.com/big:1", "r.example.com/small:1"
SIZES = KnownImages({BIG: 5 * GB, SMALL: GB})
FAST = WarmLimits(nodes_at_once=4, bytes_per_second=100 * GB)


def node(
    name: str = "n1",
    *there: str,
    placeholders: int = 1,
    disk: int = 100 * GB,
    used: int = 0,
    pressure: bool = False,
    most: int = 30 * GB,
    wanted: Sequence[str] = (SMALL, BIG),
    lists_all: bool = True,
) -> WarmNode:
    return WarmNode(
        name=name,
        placeholders=placeholders,
        images=dict.fromkeys(there, GB),
        used_bytes=used,
        disk_bytes=disk,
        pressure=pressure,
        architecture="amd64",
        max_bytes=most,
        wanted=[WantedImage(image, "shop/deploy/api", 0.5) for image in wanted],
        lists_all=lists_all,
    )


def images(orders: list[ImagePullOrder]) -> list[tuple[str, str]]:
    return [(order.node, order.image) for order in orders]


def test_the_largest_image_comes_first_and_each_node_pulls_one_at_a_time() -> None:
    pulls = WarmPulls()
    assert images(pulls.choose([node()], SIZES, FAST, 0.0)) == [("n1", BIG)]
    assert pulls.choose([node()], SIZES, FAST, 1.0) == []
    pulls.end_pull("n1", SIZES, 2.0)
    assert images(pulls.choose([node("n1", BIG)], SIZES, FAST, 2.0)) == [("n1", SMALL)]


def test_nothing_is_pulled_twice() -> None:
    pulls = WarmPulls()
    assert pulls.choose([node("n1", BIG, SMALL)], SIZES, FAST, 0.0) == []
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, 1.0)
    pulls.end_pull("n1", SIZES, 2.0)
    assert pulls.choose([node("n1", BIG, wanted=[BIG])], SIZES, FAST, 3.0) == []


def test_nodes_with_most_placeholders_come_first_and_few_pull_at_once() -> None:
    nodes = [node(f"n{number}", placeholders=number) for number in range(1, 10)]
    found = WarmPulls().choose(nodes, SIZES, WarmLimits(2, 100 * GB), 0.0)
    assert [order.node for order in found] == ["n9", "n8"]


def test_bytes_are_spread_over_time() -> None:
    pulls, slow = WarmPulls(), WarmLimits(9, GB)
    assert len(pulls.choose([node("a"), node("b")], SIZES, slow, 0.0)) == 1  # 5 GB at 1 GB a second
    assert pulls.choose([node("b")], SIZES, slow, 3.0) == []
    assert len(pulls.choose([node("b")], SIZES, slow, 5.0)) == 1


@run_for_each(
    "found",
    [
        node(pressure=True),
        node(disk=0),
        node(used=60 * GB),
        node(most=GB // 2),
        node(disk=1),
    ],
)
def test_nothing_is_pulled_where_disk_is_short(found: WarmNode) -> None:
    pulls = WarmPulls()
    assert pulls.choose([found], SIZES, FAST, 0.0) == []
    (problem,) = pulls.problems()
    assert (problem.node, problem.image, problem.reason) == ("n1", BIG, "DiskShort")
    assert problem.message
    pulls.keep_only([])
    assert pulls.problems() == []


def test_a_small_image_is_pulled_where_a_large_one_does_not_fit() -> None:
    assert images(WarmPulls().choose([node(most=2 * GB)], SIZES, FAST, 0.0)) == [("n1", SMALL)]


def test_a_failure_backs_off_and_is_told_with_its_reason() -> None:
    pulls, waits, now = WarmPulls(), [], 0.0
    for _ in range(12):
        (order,) = pulls.choose([node(wanted=[BIG])], SIZES, FAST, now)
        waits.append(pulls.fail_pull(order.node, "ErrImagePull", "denied", now))
        assert pulls.choose([node(wanted=[BIG])], SIZES, FAST, now + waits[-1] - 1) == []
        now += waits[-1]
    assert waits[:3] == [FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS, 4 * FIRST_RETRY_SECONDS]
    assert max(waits) == LONGEST_RETRY_SECONDS
    (problem,) = pulls.problems()
    assert (problem.node, problem.image, problem.reason, problem.message) == ("n1", BIG, "ErrImagePull", "denied")
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, now)
    pulls.end_pull("n1", SIZES, now)
    assert pulls.problems() == []


def collected(pulls: WarmPulls, now: float) -> float:
    """Pull an image, and let it vanish; return after how many seconds it is pulled again."""
    (order,) = pulls.choose([node(wanted=[BIG])], SIZES, FAST, now)
    pulls.end_pull(order.node, SIZES, now)
    gone = now + LISTED_SECONDS + 1
    for seconds in range(0, 24 * 3600, 30):
        if pulls.choose([node(wanted=[BIG])], SIZES, FAST, gone + seconds):
            pulls.running.clear()
            return float(seconds)
    raise AssertionError("never")


def test_a_collected_image_is_pulled_again_later_each_time() -> None:
    pulls = WarmPulls()
    waits = [collected(pulls, number * 100_000.0) for number in range(3)]
    assert waits == [FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS, 4 * FIRST_RETRY_SECONDS]
    assert [problem.reason for problem in pulls.problems()] == ["Collected"]
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, 1e6)
    pulls.end_pull("n1", SIZES, 1e6)
    assert pulls.problems() == []
    pulls.choose([node("n1", BIG, wanted=[BIG])], SIZES, FAST, 1e6 + COLLECTED_SECONDS + 1)  # it has stayed
    assert len(pulls.choose([node(wanted=[BIG])], SIZES, FAST, 1e6 + COLLECTED_SECONDS + 2)) == 1


def test_a_kubelet_may_list_an_image_late_or_not_at_all() -> None:
    pulls = WarmPulls()
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, 0.0)
    pulls.end_pull("n1", SIZES, 10.0)
    assert pulls.choose([node(wanted=[BIG])], SIZES, FAST, 10.0 + LISTED_SECONDS) == []
    assert pulls.choose([node(wanted=[BIG], lists_all=False)], SIZES, FAST, 900.0) == []
    assert pulls.problems() == []


def test_a_failure_of_an_image_that_is_no_longer_wanted_is_told_no_more() -> None:
    pulls = WarmPulls()
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, 0.0)
    pulls.fail_pull("n1", "ErrImagePull", "denied", 1.0)
    pulls.choose([node(wanted=[SMALL])], SIZES, FAST, 2.0)
    assert pulls.problems() == []


def test_an_image_that_was_listed_and_is_no_more_was_collected() -> None:
    pulls = WarmPulls()
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, 0.0)
    pulls.end_pull("n1", SIZES, 10.0)
    pulls.choose([node("n1", BIG, wanted=[BIG])], SIZES, FAST, 15.0)
    assert pulls.choose([node(wanted=[BIG])], SIZES, FAST, 20.0) == []
    assert [problem.reason for problem in pulls.problems()] == ["Collected"]
    assert len(pulls.choose([node(wanted=[BIG])], SIZES, FAST, 20.0 + FIRST_RETRY_SECONDS)) == 1


def test_the_same_digest_is_pulled_once_under_whatever_name() -> None:
    digest = "sha256:" + "a" * 64
    pinned, copy = f"r.example.com/big@{digest}", f"mirror.example.com/big@{digest}"
    known = known_images([[((BIG, pinned), 5 * GB)], [((SMALL, "r.example.com/small@sha256:b"), GB)], [((SMALL,), GB)]])
    assert (known.digest(BIG), known.size(pinned), known.digest(SMALL)) == (digest, 5 * GB, "sha256:b")
    assert WarmPulls().choose([node("n1", copy, wanted=[BIG])], known, FAST, 0.0) == []
    pulls = WarmPulls()
    assert len(pulls.choose([node(wanted=[BIG, pinned])], known, FAST, 0.0)) == 1
    pulls.end_pull("n1", known, 1.0)
    assert pulls.choose([node(wanted=[BIG, pinned])], known, FAST, 2.0) == []
    two = known_images([[((BIG, pinned), GB)], [((BIG, "r.example.com/big@sha256:c"), GB)]])
    assert two.digest(BIG) == ""  # the tag has moved


def test_images_that_are_no_longer_wanted_take_nothing_of_the_policys_bytes() -> None:
    pulls, now = WarmPulls(), 0.0
    for number in range(6):  # each rollout has a new image
        now += 600.0
        there = [f"r.example.com/app:{before}" for before in range(number)]
        found = pulls.choose(
            [node("n1", *there, wanted=[f"r.example.com/app:{number}"], most=2 * GB)], SIZES, FAST, now
        )
        assert len(found) == 1
        pulls.end_pull("n1", SIZES, now)


def test_nodes_that_hold_nothing_any_more_are_forgotten() -> None:
    pulls = WarmPulls()
    pulls.choose([node(wanted=[BIG])], SIZES, FAST, 0.0)
    pulls.fail_pull("n1", "x", "", 1.0)
    pulls.keep_only([])
    assert pulls.problems() == []


def test_images_are_those_of_workloads_that_are_likely_to_arrive() -> None:
    arrivals = {"shop/deploy/api": 90, "shop/deploy/web": 8, "shop/job/rare": 2}
    of = {
        "shop/deploy/api": ["api:1", "sidecar:1"],
        "shop/deploy/web": ["web:1", "sidecar:1"],
        "shop/job/rare": ["r:1"],
    }
    found = wanted_images(arrivals, of, least_share=0.05, named=["docker.io/library/web:1"])
    assert [image.name for image in found] == ["docker.io/library/web:1", "api:1", "sidecar:1"]
    assert wanted_images({}, of, least_share=0.0) == []


@given(
    st.lists(st.tuples(st.integers(0, 20 * GB), st.integers(0, 50 * GB), st.booleans()), max_size=12),
    st.integers(1, 5),
)
def test_whatever_nodes_there_are_the_limits_hold(rows: list[tuple[int, int, bool]], at_once: int) -> None:
    nodes = [
        node(f"n{number}", disk=disk, used=used, pressure=pressure)
        for number, (used, disk, pressure) in enumerate(rows)
    ]
    pulls = WarmPulls()
    for second in range(5):
        found = pulls.choose(nodes, SIZES, WarmLimits(at_once, 2 * GB), float(second))
        assert len(pulls.running) <= at_once
        for order in found:
            own = next(each for each in nodes if each.name == order.node)
            assert not own.pressure
            assert own.used_bytes + order.size_bytes <= DISK_SHARE * own.disk_bytes
    assert len({order.node for order in pulls.running.values()}) == len(pulls.running)


def test_an_image_that_no_node_has_counts_as_a_gibibyte() -> None:
    (order,) = WarmPulls().choose([node(wanted=["new:1"])], KnownImages(), FAST, 0.0)
    assert order.size_bytes == UNKNOWN_BYTES


@run_for_each(
    ("name", "full"),
    [
        ("redis", "docker.io/library/redis:latest"),
        ("redis:7", "docker.io/library/redis:7"),
        ("team/app", "docker.io/team/app:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("r.example.com:5000/a/b:1", "r.example.com:5000/a/b:1"),
        ("r.io/a:1@sha256:" + "a" * 64, "r.io/a@sha256:" + "a" * 64),
    ],
)
def test_a_short_name_is_listed_by_nodes_as_a_full_one(name: str, full: str) -> None:
    assert is_image(name)
    assert full_name(name) == full
    assert full_name(full) == full


@run_for_each("name", ["", "A", "a b", "a:", "a@sha256:1", "http://a/b", "-a", "a/", "x" * 600, "a:1\n"])
def test_what_is_no_name_of_an_image_is_refused(name: str) -> None:
    assert not is_image(name)
