import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slack.audit.findings.sample import CgroupLevel, ReadError, Sample, Sampled
from slack.audit.sources.cgroup_names import target_of
from slack.audit.sources.mounts import InvalidMounts, find_mounts
from slack.audit.sources.walker import CgroupWalker
from tests.audit.tree import TREES, unpack, uptime

UID = "4c1f0b0e-1111-2222-3333-0123456789ab"
ID = "3a9b" * 16
POD = f"/kubepods/burstable/pod{UID}"
CONTAINER = f"{POD}/{ID}"
CGROUPS = ("", "/kubepods", "/kubepods/burstable", POD, CONTAINER, "/system.slice", "/system.slice/nginx.service")


@dataclass
class Node:
    """A v1 node of plain files, with a clock that stands until it is moved."""

    root: Path
    now: float = 100.0
    walkers: list[CgroupWalker] = field(default_factory=list)

    @property
    def top(self) -> Path:
        return self.root / "sys" / "fs" / "cgroup" / "cpu,cpuacct"

    def write(self, path: str, name: str, content: str) -> None:
        folder = Path(f"{self.top}{path}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)

    def cgroup(self, path: str, quota_us: int = -1, periods: int = 0, throttled: int = 0, local_ns: int = 0) -> None:
        self.write(path, "cpu.cfs_quota_us", f"{quota_us}\n")
        self.write(path, "cpu.cfs_period_us", "100000\n")
        self.write(path, "cpu.cfs_burst_us", "0\n")
        self.write(path, "cpuacct.usage", "77\n")
        self.write(path, "cpu.stat.local", f"throttled_time {local_ns}\n")
        self.write(
            path, "cpu.stat", f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {throttled * 1000}\n"
        )

    def walker(self, most_descriptors: int | None = None) -> CgroupWalker:
        walker = CgroupWalker(self.root, clock=lambda: self.now, most_descriptors=most_descriptors)
        self.walkers.append(walker)
        return walker


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    for path in CGROUPS:
        made.cgroup(path)
    made.cgroup(POD, 200_000)
    made.cgroup(CONTAINER, 100_000, periods=5, throttled=1)
    yield made
    for walker in made.walkers:
        walker.close()


def by_path(result: Sampled) -> dict[str, Sample]:
    return {sample.target.path: sample for sample in result.samples}


def test_every_level_of_the_kubelet_and_the_root_are_sampled_and_no_idle_unit(node: Node) -> None:
    result = node.walker().sample()
    assert {sample.target.path: sample.target.level for sample in result.samples} == {
        "/": CgroupLevel.NODE,
        "/kubepods": CgroupLevel.KUBEPODS,
        "/kubepods/burstable": CgroupLevel.QOS,
        POD: CgroupLevel.POD,
        CONTAINER: CgroupLevel.CONTAINER,
    }
    container = by_path(result)[CONTAINER]
    assert container == Sample(target_of(CONTAINER), 100.0, 100_000, 100_000, 5, 1, 1000, 77, 0, 0, None)  # type: ignore[arg-type]  # it has a target
    assert by_path(result)["/kubepods"].quota_us is None
    assert not result.troubles


def test_another_cgroup_is_sampled_when_it_has_a_quota_and_so_are_those_above_it(node: Node) -> None:
    node.cgroup("/system.slice/nginx.service", 50_000)
    found = by_path(node.walker().sample())
    assert found["/system.slice/nginx.service"].quota_us == 50_000
    assert found["/system.slice"].target.level is CgroupLevel.OTHER


def test_counters_are_read_anew_each_time(node: Node) -> None:
    walker = node.walker()
    walker.sample()
    node.cgroup(CONTAINER, 100_000, periods=9, throttled=2)
    node.now += 1
    found = by_path(walker.sample())[CONTAINER]
    assert (found.periods, found.throttled, found.at_seconds) == (9, 2, 101.0)


def test_a_file_that_is_longer_than_any_of_todays_kernels_is_read_whole_each_time(node: Node) -> None:
    walker = node.walker()
    for periods in (5, 6, 7, 8):
        more = "".join(f"nr_of_a_later_kernel_{number} {2**63}\n" for number in range(20))
        node.write(CONTAINER, "cpu.stat", f"{more}nr_periods {periods}\nnr_throttled 0\nthrottled_time 0\n")
        result = walker.sample()
        assert by_path(result)[CONTAINER].periods == periods
        assert not result.troubles


def test_a_resize_is_seen_within_one_relisting(node: Node) -> None:
    walker = node.walker()
    walker.sample()
    node.cgroup(CONTAINER, 300_000)
    node.now += 9.9
    assert by_path(walker.sample())[CONTAINER].quota_us == 100_000
    node.now += 0.2
    assert by_path(walker.sample())[CONTAINER].quota_us == 300_000


def test_a_child_that_stands_still_for_its_pod_is_seen_though_its_own_counters_are_zeros(node: Node) -> None:
    node.cgroup(CONTAINER)
    walker = node.walker()
    assert by_path(walker.sample())[CONTAINER].inherited_ns == 0
    node.cgroup(POD, 200_000, periods=10, throttled=10)
    node.cgroup(CONTAINER, local_ns=5000)
    found = by_path(walker.sample())[CONTAINER]
    assert (found.quota_us, found.throttled, found.inherited_ns) == (None, 0, 5000)


def test_time_that_was_lost_before_the_first_sample_is_part_of_the_first_count(node: Node) -> None:
    node.cgroup(POD, 200_000, periods=10, throttled=10)
    node.cgroup(CONTAINER, local_ns=9000)
    assert by_path(node.walker().sample())[CONTAINER].inherited_ns == 9000


def test_new_pods_are_met_at_once_and_gone_ones_are_not_sampled(node: Node) -> None:
    walker = node.walker()
    walker.sample()
    other = "/kubepods/pod99999999-1111-2222-3333-0123456789ab"
    node.cgroup(other, 1000)
    assert other in by_path(walker.sample())
    for name in os.listdir(f"{node.top}{other}"):  # noqa: PTH208 - names are wanted
        Path(f"{node.top}{other}", name).unlink()
    Path(f"{node.top}{other}").rmdir()
    assert other not in by_path(walker.sample())


@pytest.mark.parametrize(
    ("content", "trouble"),
    [("", ReadError.EMPTY), ("nr_periods 5\nnr_thr", ReadError.MALFORMED), ("nr_periods -1\n", ReadError.MALFORMED)],
)
def test_a_bad_file_costs_one_cgroup_and_is_told(node: Node, content: str, trouble: ReadError) -> None:
    walker = node.walker()
    node.write(CONTAINER, "cpu.stat", content)
    for _ in range(2):  # the first walk and a steady one
        result = walker.sample()
        assert result.troubles == {trouble: 1}
        assert result.examples[trouble].startswith(f"{node.top}{CONTAINER}/cpu.stat: ")
        assert CONTAINER not in by_path(result)
        assert POD in by_path(result)
    node.cgroup(CONTAINER, 100_000, periods=6)
    assert by_path(walker.sample())[CONTAINER].periods == 6


def test_a_bad_quota_leaves_the_cgroup_out_and_never_makes_it_one_without_a_limit(node: Node) -> None:
    node.write(CONTAINER, "cpu.cfs_quota_us", "lots\n")
    result = node.walker().sample()
    assert CONTAINER not in by_path(result)
    assert result.troubles == {ReadError.MALFORMED: 1}


@pytest.mark.parametrize("name", ["cpuacct.usage", "cpu.stat.local", "cpu.cfs_burst_us"])
def test_what_is_not_needed_to_judge_is_none_when_it_is_bad_and_told(node: Node, name: str) -> None:
    node.write(CONTAINER, name, "-7\n")
    result = node.walker().sample()
    found = by_path(result)[CONTAINER]
    values = {
        "cpuacct.usage": found.usage_ns,
        "cpu.stat.local": found.inherited_ns,
        "cpu.cfs_burst_us": found.burst_us,
    }
    assert values[name] is None
    assert sum(value is None for value in values.values()) == 1
    assert result.troubles == {ReadError.MALFORMED: 1}


@pytest.mark.parametrize("name", ["cpuacct.usage", "cpu.stat.local", "cpu.cfs_burst_us"])
def test_what_a_kernel_does_not_have_is_none_and_no_trouble(node: Node, name: str) -> None:
    Path(f"{node.top}{CONTAINER}/{name}").unlink()
    result = node.walker().sample()
    assert CONTAINER in by_path(result)
    assert not result.troubles


def test_directories_pipes_and_symlinks_in_the_place_of_files_are_told_and_never_wait(node: Node) -> None:
    for path, make in ((POD, "pipe"), (CONTAINER, "folder"), ("/kubepods", "link")):
        file = Path(f"{node.top}{path}/cpu.stat")
        file.unlink()
        if make == "pipe":
            os.mkfifo(file)
        elif make == "folder":
            file.mkdir()
        else:
            file.symlink_to(file)
    result = node.walker().sample()
    assert result.troubles[ReadError.UNREADABLE] == 3
    assert set(by_path(result)) == {"/", "/kubepods/burstable"}


def test_symlinked_directories_are_not_followed_and_deep_trees_are_cut_and_told(node: Node) -> None:
    Path(f"{node.top}{POD}/loop").symlink_to(f"{node.top}/kubepods")
    Path(f"{node.top}{CONTAINER}" + "/d" * 60).mkdir(parents=True)
    result = node.walker().sample()
    assert not any("loop" in path for path in by_path(result))
    assert CONTAINER in by_path(result)
    assert "levels deep" in result.examples[ReadError.UNREADABLE]


def test_names_that_are_no_text_can_be_printed_and_sent(node: Node) -> None:
    name = os.fsdecode(b"\xff\n")
    node.cgroup(f"/system.slice/{name}", 1000)
    found = by_path(node.walker().sample())
    assert "/system.slice/\\xff\\n" in found


def test_a_tree_that_vanishes_is_told_and_taken_up_again_when_it_is_back(node: Node) -> None:
    walker = node.walker()
    before = len(walker.sample().samples)
    away = node.root / "away"
    node.top.rename(away)
    node.now += 11
    result = walker.sample()
    assert result.samples == ()
    assert set(result.troubles) & {ReadError.GONE, ReadError.UNREADABLE}
    away.rename(node.top)
    node.now += 11
    assert len(walker.sample().samples) == before


def test_a_machine_without_cgroups_is_an_error_with_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidMounts, match="no cgroup cpu controller"):
        CgroupWalker(tmp_path)


def test_close_lets_go_of_every_descriptor(node: Node) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is wanted
    walker = node.walker()
    for _ in range(3):
        walker.sample()
    assert len(os.listdir("/proc/self/fd")) > before  # noqa: PTH208
    walker.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_with_few_descriptors_files_are_opened_each_time_and_it_says_so(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_now = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is wanted
    few = (open_now + 130, open_now + 130)
    monkeypatch.setattr(resource, "getrlimit", lambda _: few)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    walker = node.walker()
    for _ in range(3):
        result = walker.sample()
    assert CONTAINER in by_path(result)
    assert caplog.messages == [message for message in caplog.messages if "raise the limit of open files" in message]
    assert len(caplog.messages) == 1


def test_an_own_bound_of_descriptors_is_kept_without_a_word(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is wanted
    walker = node.walker(most_descriptors=3)
    for _ in range(3):
        assert CONTAINER in by_path(walker.sample())
    assert len(os.listdir("/proc/self/fd")) == before + 3  # noqa: PTH208
    assert not caplog.messages


def test_the_node_is_described(node: Node) -> None:
    for path, text in {
        "proc/version": "Linux version 4.19.0-6-amd64 (x) #1 SMP Debian 4.19.67-2+deb10u2\n",
        "sys/devices/system/cpu/online": "0-3,8-11\n",
    }.items():
        (node.root / path).parent.mkdir(parents=True, exist_ok=True)
        (node.root / path).write_text(text)
    facts = node.walker().sample().nodes[""]
    assert (facts.cpus, facts.kernel_release, facts.hierarchy) == (8, "4.19.0-6-amd64", "v1")
    assert "4.19.67-2+deb10u2" in facts.kernel_version


def test_threads_below_a_cgroup_are_counted(node: Node) -> None:
    node.write(POD, "tasks", "")
    node.write(CONTAINER, "tasks", "12\n13\n14\n")
    walker = node.walker()
    found = by_path(walker.sample())
    assert walker.threads(found[POD].target) == 3
    assert walker.threads(found["/kubepods/burstable"].target) == 3


@pytest.mark.parametrize(
    "name", sorted({file.name.removesuffix(".before.tree") for file in TREES.glob("*.before.tree")})
)
def test_a_recorded_machine_is_read_without_trouble_at_both_moments(name: str, tmp_path: Path) -> None:
    unpack(TREES / f"{name}.before.tree", tmp_path)
    walker = CgroupWalker(tmp_path, clock=lambda: uptime(tmp_path))
    before = walker.sample()
    unpack(TREES / f"{name}.after.tree", tmp_path)
    after = walker.sample()
    walker.close()
    assert not before.troubles
    assert not after.troubles
    assert {CgroupLevel.KUBEPODS, CgroupLevel.POD, CgroupLevel.CONTAINER} <= {
        sample.target.level for sample in after.samples
    }
    first = by_path(before)
    both = [sample for sample in after.samples if sample.target.path in first]
    assert len(both) > len(after.samples) / 2
    assert all(sample.at_seconds > first[sample.target.path].at_seconds for sample in both)
    assert any(sample.throttled_ns > first[sample.target.path].throttled_ns for sample in both)


@contextmanager
def real_cgroup(name: str) -> Iterator[Path]:
    try:
        mounts = find_mounts(Path("/"))
        folder = Path(mounts.cpu.directory, f"resource-slack-test-{os.getpid()}-{name}")
        folder.mkdir()
    except (OSError, InvalidMounts) as error:
        pytest.skip(f"no cgroups can be made here: {error}")
    try:
        yield folder
    finally:
        for path, _, _ in os.walk(folder, topdown=False):
            Path(path).rmdir()


def test_on_a_real_kernel_cgroups_come_and_go_between_samples() -> None:
    with real_cgroup("churn") as folder:
        (folder / "kubepods" / f"pod{UID}" / ID).mkdir(parents=True)
        path = f"/{folder.name}/kubepods/pod{UID}"
        walker = CgroupWalker(relist_seconds=3600.0)
        for _ in range(3):
            found = by_path(walker.sample())
        assert found[f"{path}/{ID}"].target.level is CgroupLevel.CONTAINER
        (folder / "kubepods" / f"pod{UID}" / ("b" * 64)).mkdir()
        assert f"{path}/{'b' * 64}" in by_path(walker.sample())
        # Another of the same name: link counts do not tell, the kept descriptor does.
        (folder / "kubepods" / f"pod{UID}" / ID).rmdir()
        (folder / "kubepods" / f"pod{UID}" / ID).mkdir()
        result = walker.sample()
        assert result.troubles.get(ReadError.GONE, 0) >= 1
        assert f"{path}/{ID}" in by_path(walker.sample())
        walker.close()


def test_a_first_walk_of_many_leaves_bursts_to_the_second(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack.audit.sources.census.MANY", 2)
    walker = node.walker()
    first, second = by_path(walker.sample())[CONTAINER], by_path(walker.sample())[CONTAINER]
    assert (first.quota_us, first.burst_us) == (100_000, None)
    assert (second.quota_us, second.burst_us) == (100_000, 0)


def test_a_clock_that_steps_back_only_makes_it_list_anew(node: Node) -> None:
    walker = node.walker()
    walker.sample()
    node.now -= 50
    node.cgroup(CONTAINER, 400_000)
    assert by_path(walker.sample())[CONTAINER].quota_us == 400_000


def test_default_clock_is_monotonic(node: Node) -> None:
    before = time.monotonic()
    walker = CgroupWalker(node.root)
    found = walker.sample().samples[0].at_seconds
    walker.close()
    assert before <= found <= time.monotonic()


STAT_V2 = "usage_usec 900\nnr_periods 5\nnr_throttled 1\nthrottled_usec 70\n"
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"


def v2_node(root: Path, some: int = 900, full: int = 600) -> Path:
    """A v2 node of plain files with one container; return the container's folder."""
    top = root / "sys" / "fs" / "cgroup"
    for path in ("", "/kubepods", "/kubepods/burstable", POD, CONTAINER):
        folder = Path(f"{top}{path}")
        folder.mkdir(parents=True)
        (folder / "cpu.stat").write_text(STAT_V2)
        if path:
            (folder / "cpu.max").write_text("20000 100000\n")
        (folder / "cpu.pressure").write_text(PRESSURE.format(some=some, full=full))
    (top / "cgroup.controllers").write_text("cpu memory\n")
    return Path(f"{top}{CONTAINER}")


def walked(root: Path) -> Iterator[Sampled]:
    """Samples of one walker, a second apart, the limits read anew each time: with descriptors kept and without."""
    now = [100.0]
    walker = CgroupWalker(root, clock=lambda: now[0], relist_seconds=0.5)
    try:
        while True:
            yield walker.sample()
            now[0] += 1
    finally:
        walker.close()


def test_pressure_is_read_of_containers_each_time_and_of_no_level_above(tmp_path: Path) -> None:
    container = v2_node(tmp_path)
    looks = walked(tmp_path)
    for some, full in ((900, 600), (950, 640), (990, 640), (1200, 700)):
        (container / "cpu.pressure").write_text(PRESSURE.format(some=some, full=full))
        result = next(looks)
        assert not result.troubles
        found = by_path(result)
        assert (found[CONTAINER].waiting_ns, found[CONTAINER].stalled_ns) == (some * 1000, full * 1000)
        assert {sample.waiting_ns for path, sample in found.items() if path != CONTAINER} == {None}


def test_a_kernel_without_pressure_and_one_that_was_told_not_to_count_it_are_no_trouble(tmp_path: Path) -> None:
    container = v2_node(tmp_path)
    looks = walked(tmp_path)
    assert by_path(next(looks))[CONTAINER].waiting_ns == 900_000
    (container / "cpu.pressure").unlink()  # cgroup.pressure 0
    for _ in range(3):
        result = next(looks)
        assert (by_path(result)[CONTAINER].waiting_ns, by_path(result)[CONTAINER].stalled_ns) == (None, None)
        assert by_path(result)[CONTAINER].periods == 5
    (container / "cpu.pressure").write_text(PRESSURE.format(some=1000, full=10))
    next(looks)
    assert by_path(next(looks))[CONTAINER].waiting_ns == 1_000_000


def test_damaged_pressure_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    container = v2_node(tmp_path)
    (container / "cpu.pressure").write_text("some avg10=0.00 tot")
    result = next(walked(tmp_path))
    assert (by_path(result)[CONTAINER].waiting_ns, by_path(result)[CONTAINER].throttled) == (None, 1)
    assert result.troubles == {ReadError.MALFORMED: 1}
    assert "cpu.pressure" in result.examples[ReadError.MALFORMED]


@pytest.mark.parametrize(("some", "known"), [(900, True), (0, False)])
def test_on_a_hybrid_pressure_is_that_of_v2s_cgroup_where_somebody_is_in_it(node: Node, some: int, known: bool) -> None:
    unified = node.root / "sys" / "fs" / "cgroup" / "unified"
    folder = Path(f"{unified}{CONTAINER}")
    folder.mkdir(parents=True)
    (unified / "cgroup.controllers").write_text("hugetlb\n")
    (unified / "cpu.stat").write_text("usage_usec 1\n")
    (folder / "cpu.pressure").write_text(PRESSURE.format(some=some, full=0))
    walker = node.walker()
    for _ in range(3):
        found = by_path(walker.sample())[CONTAINER]
        assert found.periods == 5
        assert found.waiting_ns == (some * 1000 if known else None)
