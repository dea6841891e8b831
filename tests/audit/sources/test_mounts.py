import os
from pathlib import Path

import pytest

from slack.audit.sources.mounts import HYBRID, V1, V2, InvalidMounts, find_mounts, parse_mountinfo

LINE = "36 31 0:32 {shown} {place} rw,relatime {optional}- {kind} {kind} rw{options}"


def line(place: str, options: str = "", *, kind: str = "cgroup", shown: str = "/", optional: str = "") -> str:
    return LINE.format(place=place, options="," + options if options else "", kind=kind, shown=shown, optional=optional)


def machine(root: Path, lines: list[str], files: dict[str, str]) -> Path:
    (root / "proc" / "1").mkdir(parents=True)
    (root / "proc" / "1" / "mountinfo").write_text("".join(text + "\n" for text in lines))
    for path, content in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


def inside(root: Path, directory: str | None) -> str | None:
    return None if directory is None else "/" + os.path.relpath(directory, root)


@pytest.mark.parametrize("name", ["cpu,cpuacct", "cpuacct,cpu"])
def test_v1_with_both_controllers_in_one_mount(tmp_path: Path, name: str) -> None:
    place = f"/sys/fs/cgroup/{name}"
    found = find_mounts(machine(tmp_path, [line(place, name)], {f"{place}/cpu.stat": "x"}))
    assert found.hierarchy == V1
    assert inside(tmp_path, found.cpu.directory) == place
    assert found.usage == found.cpu


def test_v1_with_cpu_alone_counts_the_time_used_in_another_mount(tmp_path: Path) -> None:
    lines = [line("/cg/cpuacct", "cpuacct"), line("/cg/cpuset", "cpuset"), line("/cg/cpu", "cpu")]
    found = find_mounts(machine(tmp_path, lines, {"/cg/cpu/cpu.stat": "", "/cg/cpuacct/cpuacct.usage": ""}))
    assert found.hierarchy == V1
    assert inside(tmp_path, found.cpu.directory) == "/cg/cpu"
    assert found.usage is not None
    assert inside(tmp_path, found.usage.directory) == "/cg/cpuacct"


def test_v1_without_cpuacct_has_no_time_used(tmp_path: Path) -> None:
    found = find_mounts(machine(tmp_path, [line("/cg/cpu", "cpu")], {"/cg/cpu/cpu.stat": ""}))
    assert found.usage is None


def test_v2(tmp_path: Path) -> None:
    files = {"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory\n", "/sys/fs/cgroup/cpu.stat": ""}
    found = find_mounts(machine(tmp_path, [line("/sys/fs/cgroup", "nsdelegate", kind="cgroup2")], files))
    assert found.hierarchy == V2
    assert found.cpu.is_v2
    assert found.usage == found.cpu


def test_a_v2_mount_without_the_cpu_controller_makes_a_hybrid(tmp_path: Path) -> None:
    lines = [line("/cg/unified", kind="cgroup2"), line("/cg/cpu", "cpu,cpuacct")]
    files = {"/cg/unified/cgroup.controllers": "hugetlb\n", "/cg/cpu/cpu.stat": ""}
    found = find_mounts(machine(tmp_path, lines, files))
    assert found.hierarchy == HYBRID
    assert inside(tmp_path, found.cpu.directory) == "/cg/cpu"
    assert found.unified is not None
    assert inside(tmp_path, found.unified.directory) == "/cg/unified"


def test_of_several_mounts_the_one_that_shows_the_most_is_taken(tmp_path: Path) -> None:
    lines = [
        line("/var/lib/x/cpu", "cpu,cpuacct", shown="/kubepods/pod1/abc"),
        line("/srv/a/rather/long/bind/mount", "cpu,cpuacct"),
        line("/sys/fs/cgroup/cpu", "cpu,cpuacct", optional="shared:9 master:1 "),
    ]
    files = {
        f"{place}/cpu.stat": "" for place in ("/var/lib/x/cpu", "/srv/a/rather/long/bind/mount", "/sys/fs/cgroup/cpu")
    }
    found = find_mounts(machine(tmp_path, lines, files))
    assert inside(tmp_path, found.cpu.directory) == "/sys/fs/cgroup/cpu"


def test_a_containers_own_mount_tells_which_part_it_shows(tmp_path: Path) -> None:
    lines = [line("/sys/fs/cgroup/cpu", "cpu", shown="/kubepods/pod1/abc")]
    found = find_mounts(machine(tmp_path, lines, {"/sys/fs/cgroup/cpu/cpu.stat": ""}))
    assert found.cpu.root == "/kubepods/pod1/abc"


def test_outside_of_the_cgroup_namespace_nobody_knows_the_part() -> None:
    (found,) = parse_mountinfo(line("/sys/fs/cgroup", kind="cgroup2", shown="/../..").encode())
    assert found.root == "/"


def test_blanks_and_backslashes_are_escaped_in_mountinfo() -> None:
    (found,) = parse_mountinfo(line("/my\\040cgroups/\\134cpu\\011", "cpu").encode())
    assert found.directory == "/my cgroups/\\cpu\t"


def test_a_later_mount_hides_an_earlier_one_of_the_same_place(tmp_path: Path) -> None:
    lines = [line("/cg", "cpu", shown="/"), line("/cg", "cpu", shown="/part")]
    assert find_mounts(machine(tmp_path, lines, {"/cg/cpu.stat": ""})).cpu.root == "/part"


def test_a_mount_that_cannot_be_seen_from_here_is_none(tmp_path: Path) -> None:
    lines = [line("/hidden", "cpu"), line("/cg/cpu", "cpu", shown="/part")]
    found = find_mounts(machine(tmp_path, lines, {"/cg/cpu/cpu.stat": ""}))
    assert inside(tmp_path, found.cpu.directory) == "/cg/cpu"


@pytest.mark.parametrize("name", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
def test_without_a_mountinfo_the_usual_places_of_v1_are_looked_at(tmp_path: Path, name: str) -> None:
    place = tmp_path / "sys" / "fs" / "cgroup" / name
    place.mkdir(parents=True)
    (place / "cpu.stat").write_text("")
    found = find_mounts(tmp_path)
    assert found.cpu.directory == str(place)
    assert (found.usage is not None) == ("cpuacct" in name)


def test_without_a_mountinfo_a_v2_tree_is_known_by_its_files(tmp_path: Path) -> None:
    place = tmp_path / "sys" / "fs" / "cgroup"
    place.mkdir(parents=True)
    (place / "cpu.stat").write_text("")
    assert find_mounts(tmp_path).hierarchy == V2


def test_a_symlink_to_the_mount_is_followed_once(tmp_path: Path) -> None:
    place = tmp_path / "sys" / "fs" / "cgroup"
    (place / "cpu,cpuacct").mkdir(parents=True)
    (place / "cpu,cpuacct" / "cpu.stat").write_text("")
    (place / "cpu").symlink_to("cpu,cpuacct")
    assert find_mounts(tmp_path).cpu.directory == str(place / "cpu,cpuacct")


def test_where_nothing_is_found_it_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidMounts) as raised:
        find_mounts(tmp_path)
    text = str(raised.value)
    assert f"{tmp_path}/proc/1/mountinfo: not there" in text
    assert f"{tmp_path}/sys/fs/cgroup: neither cgroup.controllers with cpu in it (v2) nor cpu" in text


def test_what_mountinfo_has_instead_is_told(tmp_path: Path) -> None:
    lines = [line("/cg/unified", kind="cgroup2"), line("/cg/memory", "memory")]
    with pytest.raises(InvalidMounts, match="cgroup2, memory,rw"):
        find_mounts(machine(tmp_path, lines, {"/cg/unified/cgroup.controllers": "memory\n"}))


@pytest.mark.parametrize(
    "data", [b"", b"\0\n", b"36 31 0:32 / /x", b"a - b\n", b"36 31 0:32 rel rel rw - cgroup cgroup rw,cpu\n"]
)
def test_half_lines_and_other_things_are_no_mounts(data: bytes) -> None:
    assert parse_mountinfo(data) == []
