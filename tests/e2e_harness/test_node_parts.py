"""What a real node is made of, as far as it needs no root: hierarchies, images, and what a failed scenario means."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.harness.node import images, neighbours
from e2e.harness.node.cgroups import Hierarchy, hierarchies
from e2e.harness.node.neighbours import Moment, on_a_quiet_machine

MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
50 31 0:29 /docker/ab /mnt/part rw,relatime - cgroup cgroup rw,cpu,cpuacct
"""


def test_hierarchies_are_those_mounted_from_their_root() -> None:
    found = {str(hierarchy.mount): hierarchy for hierarchy in hierarchies(MOUNTINFO)}
    assert set(found) == {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}
    assert [hierarchy.version for hierarchy in found.values()] == [1, 1, 2]
    assert found["/sys/fs/cgroup/cpu,cpuacct"].has("cpu")
    assert not found["/sys/fs/cgroup/systemd"].has("cpu")


def test_version_2_has_the_controllers_that_its_root_hands_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    assert not Hierarchy(tmp_path, frozenset(), 2).has("cpu")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert Hierarchy(tmp_path, frozenset(), 2).has("cpu")


def test_an_image_is_an_archive_whose_digests_fit(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF not really")
    path = images.archive(tmp_path / "image.tar", "resource-slack.test/burner:1", ["/bin/sh"], busybox)
    with tarfile.open(path) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar}
        content = {name: file.read() for name, file in files.items() if file is not None}
    (named,) = json.loads(content["index.json"])["manifests"]
    assert named["annotations"] == {"io.containerd.image.name": "resource-slack.test/burner:1"}
    manifest = json.loads(_blob(content, named["digest"]))
    config = json.loads(_blob(content, manifest["config"]["digest"]))
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    assert config["config"]["Cmd"] == ["/bin/sh"]
    with tarfile.open(fileobj=io.BytesIO(_blob(content, layer["digest"]))) as tar:
        assert tar.getmember("bin/sh").linkname == "busybox"
        assert tar.getmember("bin/busybox").mode == 0o755


def _blob(content: dict[str, bytes], digest: str) -> bytes:
    blob = content[f"blobs/sha256/{digest.removeprefix('sha256:')}"]
    assert images._digest(blob) == digest
    return blob


class Machine:
    """A machine on which others use a given share while a scenario runs; afterwards none, unless it is told."""

    def __init__(self, patch: pytest.MonkeyPatch, *shares: float, afterwards: float = 0.0) -> None:
        self.shares = list(shares)
        patch.setattr(Moment, "share_of_others_since", lambda _self, _before: self.shares.pop(0))
        patch.setattr(neighbours, "_share_of_others_now", lambda: afterwards)


def test_a_scenario_that_fails_on_a_quiet_machine_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, 0.0)
    with pytest.raises(AssertionError, match="wrong"):
        on_a_quiet_machine(_fails)


def test_a_scenario_that_others_spoilt_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, 0.5)
    runs: list[int] = []

    def second_time_lucky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise AssertionError("a neighbour was in the way")

    on_a_quiet_machine(second_time_lucky)
    assert len(runs) == 2


def test_where_others_always_work_the_test_is_skipped_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, 0.5, 0.6, 0.7, 0.8)
    with pytest.raises(pytest.skip.Exception, match="others used 50%, 60%, 70%, 80% of this machine's CPUs"):
        on_a_quiet_machine(_fails)


def test_who_was_kept_from_the_cpus_while_it_ran_is_seen_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, *[0.01] * 4, afterwards=0.4)
    monkeypatch.setattr(neighbours, "_WAIT_SECONDS", 0.0)
    with pytest.raises(pytest.skip.Exception, match="others used 40%, 40%, 40%, 40%"):
        on_a_quiet_machine(_fails)


def _fails() -> None:
    raise AssertionError("wrong")
