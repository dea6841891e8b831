"""Bursts: only what is ordered, never above the quota, and what was there before comes back whatever happens."""

import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from slack.audit.api.messages import BurstOrder
from slack.audit.findings.sample import CgroupLevel, CgroupTarget, Sample
from slack_operator.auditor.agent.burst_writer import GRACE_SECONDS, STATE_FILE, BurstFiles, BurstWriter

ORDER = BurstOrder(pod_uid="1", container_id="api", burst_us=20_000, seconds=900)


class Node:
    """A plain-file tree, and one agent after the other on it."""

    def __init__(self, directory: Path, version: str = "v1") -> None:
        self.now = 0.0
        self.counts: list[str] = []
        self.root, self.state_dir = directory / "root", directory / "state"
        top = self.root / "sys/fs/cgroup" / ("cpu" if version == "v1" else "")
        self.directory = top / "kubepods/pod1/api"
        self.directory.mkdir(parents=True)
        (top / "cpu.stat").write_text("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
        if version == "v2":
            (top / "cgroup.controllers").write_text("cpu memory\n")
        self.file = self.directory / ("cpu.cfs_burst_us" if version == "v1" else "cpu.max.burst")
        self.file.write_text("0\n")
        target = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/pod1/api", pod_uid="1", container_id="api")
        self.sample = Sample(target, 0.0, 50_000, 100_000, 0, 0, 0)
        self.restart()

    def restart(self) -> None:
        self.writer = BurstWriter(
            BurstFiles(self.root), self.state_dir, clock=lambda: self.now, count=self.counts.append
        )

    def turn(self, *orders: BurstOrder) -> None:
        """An answer with these orders, and the next turn."""
        self.writer.order(orders)
        self.writer.reconcile([self.sample])

    def wait(self, seconds: float) -> None:
        """Time goes by without an answer."""
        self.now += seconds
        self.writer.reconcile([self.sample])

    @property
    def burst(self) -> int:
        return int(self.file.read_text().split()[0])

    @property
    def error(self) -> str:
        (state,) = self.writer.states
        return state.error


@pytest.fixture(params=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(tmp_path, request.param)


def test_a_burst_is_written_and_put_back_when_the_order_ends(node: Node) -> None:
    node.file.write_text("500\n")
    node.turn(ORDER)
    assert node.burst == 20_000
    assert node.error == ""
    node.turn()
    assert node.burst == 500
    assert node.counts == ["written", "reverted"]
    assert node.writer.states == ()
    assert not node.writer.remembers


def test_it_is_never_above_the_quota(node: Node) -> None:
    node.turn(replace_burst(80_000))
    assert node.burst == 50_000
    node.sample = changed(node.sample, quota_us=30_000)
    node.turn(replace_burst(80_000))
    assert node.burst == 30_000


def replace_burst(burst_us: int) -> BurstOrder:
    return BurstOrder(pod_uid="1", container_id="api", burst_us=burst_us)


def test_a_burst_that_a_resize_scrambled_is_written_again_and_the_former_one_is_still_known(node: Node) -> None:
    node.file.write_text("500\n")
    node.turn(ORDER)
    node.file.write_text("20\n")  # what a kernel before 6.10 makes of 20000 when cpu.max is written
    node.wait(10)
    assert node.burst == 20_000
    node.file.write_text("20\n")
    node.turn()
    assert node.burst == 500


def test_a_new_agent_puts_back_what_the_one_before_it_wrote(node: Node) -> None:
    node.turn(ORDER)
    node.restart()
    node.wait(1)
    assert node.burst == 20_000, "it waits for its first orders"
    node.turn()
    assert node.burst == 0


def test_a_new_agent_goes_on_with_an_order_that_still_holds(node: Node) -> None:
    node.file.write_text("500\n")
    node.turn(ORDER)
    node.restart()
    node.turn(ORDER)
    assert node.burst == 20_000
    node.turn()
    assert node.burst == 500


def test_a_controller_that_never_comes_back_leaves_no_burst_behind(node: Node) -> None:
    node.turn(ORDER)
    node.wait(890)
    assert node.burst == 20_000
    node.wait(20)
    assert node.burst == 0
    node.turn(ORDER)
    node.restart()
    node.wait(GRACE_SECONDS)
    assert node.burst == 0


def test_revert_puts_everything_back_at_once(node: Node) -> None:
    node.turn(ORDER)
    node.restart()
    node.writer.revert()
    assert node.burst == 0


def test_what_somebody_else_has_raised_since_is_left_alone(node: Node) -> None:
    node.turn(ORDER)
    node.file.write_text("45000\n")
    node.turn()
    assert node.burst == 45_000
    assert not node.writer.remembers


def test_a_burst_that_was_as_ordered_already_is_not_ours_to_put_back(node: Node) -> None:
    node.file.write_text("20000\n")
    node.turn(ORDER)
    node.turn()
    assert node.burst == 20_000
    assert node.counts == []


def test_a_container_that_is_gone_is_forgotten(node: Node) -> None:
    node.turn(ORDER)
    node.file.unlink()
    node.directory.rmdir()
    node.writer.reconcile([])
    assert node.error == "no such container on this node"
    node.writer.order([])
    node.writer.reconcile([])
    assert not node.writer.remembers
    assert json.loads((node.state_dir / STATE_FILE).read_text()) == {"bursts": {}}


@pytest.mark.parametrize(
    ("order", "quota_us", "words"),
    [
        (BurstOrder(pod_uid="2", container_id="api", burst_us=1), 50_000, "no such container on this node"),
        (BurstOrder(pod_uid="1", container_id="other", burst_us=1), 50_000, "no such container on this node"),
        (ORDER, None, "the container has no CPU limit"),
    ],
)
def test_an_order_for_what_is_not_here_is_told_and_not_obeyed(
    node: Node, order: BurstOrder, quota_us: int | None, words: str
) -> None:
    node.sample = changed(node.sample, quota_us=quota_us)
    node.turn(order)
    assert node.error == words
    assert node.burst == 0
    assert node.counts == ["failed"]


def test_a_kernel_without_bursts_is_told_and_no_file_is_made(node: Node) -> None:
    node.file.unlink()
    node.turn(ORDER)
    assert node.error == "this kernel has no CPU bursts; Linux 5.14 or newer has"
    assert not node.file.exists()


def test_a_link_in_place_of_the_file_is_not_followed(node: Node, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("0\n")
    node.file.unlink()
    node.file.symlink_to(elsewhere)
    node.turn(ORDER)
    assert elsewhere.read_text() == "0\n"
    assert "cannot be read" in node.error


def test_nothing_is_written_that_could_not_be_put_back_later(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.state_dir.write_text("a file where the directory should be")
    with caplog.at_level(logging.WARNING):
        node.turn(ORDER)
        node.wait(10)
    assert node.burst == 0
    assert "cannot be remembered" in node.error
    assert sum("state file" in line for line in caplog.messages) == 1
    node.state_dir.unlink()
    node.wait(10)
    assert node.burst == 20_000


def test_a_state_that_is_damaged_is_told_and_nothing_is_done_with_it(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.turn(ORDER)
    for damaged in ("", "{", "[]", '{"bursts": {"/kubepods/pod1/api": {"former_us": "x"}}}', "[" * 100_000):
        (node.state_dir / STATE_FILE).write_text(damaged)
        node.restart()
        assert not node.writer.remembers
    assert any("is not what was written there" in line for line in caplog.messages)


def test_a_refusal_of_the_kernel_is_counted_and_told_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(BurstFiles):
        def _open(self, path: str, flags: int) -> int | None:
            raise OSError(22, "Invalid argument")

    node.writer = BurstWriter(Refusing(node.root), node.state_dir, clock=lambda: node.now, count=node.counts.append)
    node.turn(ORDER)
    node.wait(10)
    assert node.error == "the burst cannot be read: Invalid argument"
    assert node.counts == ["failed", "failed"]
    assert sum("Invalid argument" in line for line in caplog.messages) == 1


def test_without_orders_nothing_is_looked_at(tmp_path: Path) -> None:
    writer = BurstWriter(BurstFiles(tmp_path / "absent"), tmp_path, clock=lambda: 0.0, count=lambda _: None)
    writer.reconcile([])
    assert writer.states == ()


@pytest.fixture
def real() -> Iterator[Path]:
    """A container's cgroup of this very kernel, v1, without tasks."""
    made = Path("/sys/fs/cgroup/cpu") / f"slack-burst-test-{uuid.uuid4().hex[:8]}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup of the cpu controller v1 can be made here: {error.strerror}")
    if not (made / "cpu.cfs_burst_us").exists():
        made.rmdir()
        pytest.skip("this kernel has no cpu.cfs_burst_us")
    yield made
    made.rmdir()


def test_on_a_real_kernel_a_burst_comes_and_goes_and_keeps_the_limit_from_being_lowered(
    real: Path, tmp_path: Path
) -> None:
    quota, burst = real / "cpu.cfs_quota_us", real / "cpu.cfs_burst_us"
    quota.write_text("50000")
    target = CgroupTarget(CgroupLevel.CONTAINER, f"/{real.name}", pod_uid="1", container_id="api")
    sample = Sample(target, 0.0, 50_000, 100_000, 0, 0, 0)
    counts: list[str] = []
    writer = BurstWriter(BurstFiles(Path("/")), tmp_path, clock=lambda: 0.0, count=counts.append)
    writer.order([replace_burst(80_000)])
    writer.reconcile([sample])
    assert burst.read_text() == "50000\n"
    with pytest.raises(OSError, match="Invalid argument"):
        quota.write_text("20000")  # what the kubelet would do when somebody lowers the limit
    writer.order([])
    writer.reconcile([sample])
    assert burst.read_text() == "0\n"
    quota.write_text("20000")
    assert counts == ["written", "reverted"]


def test_a_burst_that_somebody_writes_over_each_time_is_left_to_him_for_a_while(node: Node) -> None:
    lasting = changed(ORDER, seconds=86_400)
    node.turn(lasting)
    for _ in range(2 * 240):  # two hours
        node.file.write_text("0\n")
        node.wait(15)
    assert 6 <= node.counts.count("written") <= 15
    assert "writes the burst over" in node.error
    assert "min at a time" in node.error
    node.wait(3 * 7200)
    assert (node.burst, node.error) == (20_000, "")
