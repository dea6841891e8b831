"""Whatever bytes are in the files: an audit goes on, and only the errors that are meant come out."""

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.sources import cpustat
from slack.audit.sources.cgroup_names import name_of
from slack.audit.sources.cpustat import Malformed
from slack.audit.sources.mounts import InvalidMounts, parse_mountinfo
from slack.audit.sources.walker import CgroupWalker, count_cpus
from tests.audit.tree import TREES, entries, unpack
from tests.examples import examples

PARSERS: tuple[Callable[[bytes], object], ...] = (
    *(cpustat.parse_stat_v1, cpustat.parse_stat_v2, cpustat.parse_local_v1, cpustat.parse_local_v2),
    *(cpustat.parse_max, cpustat.parse_quota_v1, cpustat.parse_period_v1, cpustat.parse_number),
)
REAL = sorted(
    {
        content.encode()
        for file in TREES.glob("*.tree")
        for path, content in entries(file.read_text())
        if "cgroup/" in path
    }
)
DAMAGE = st.sampled_from([b"", b"\0", b"\n", b" ", b"-", b"9" * 25, b"\xff", b"nr_periods 1\n", b"max"])


def numbers(value: object) -> list[int]:
    if isinstance(value, int):
        return [value]
    return [number for part in value for number in numbers(part)] if isinstance(value, tuple) else []


def check(data: bytes) -> None:
    for parse in PARSERS:
        try:
            found = parse(data)
        except Malformed:
            continue
        assert all(0 <= number <= (2**64 - 1) * 1000 for number in numbers(found))


@given(st.binary(max_size=300))
def test_no_bytes_make_anything_else_than_counters_or_malformed(data: bytes) -> None:
    check(data)
    assert all(mount.directory.startswith("/") for mount in parse_mountinfo(data))
    name_of("/" + data.decode("utf-8", "surrogateescape"))
    assert (count_cpus(data.decode("latin-1")) or 1) > 0


@given(st.sampled_from(REAL), st.integers(0, 300), st.integers(0, 20), DAMAGE)
def test_no_damage_of_a_real_file_makes_anything_else_either(data: bytes, place: int, cut: int, put: bytes) -> None:
    check(data[:place] + put + data[place + cut :])


@pytest.mark.parametrize("name", sorted(file.name for file in TREES.glob("*.before.tree")))
@examples(8, quick=2)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_tree_is_audited_and_what_was_left_out_is_counted(name: str, seed: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as folder:
        root = unpack(TREES / name, Path(folder))
        files = sorted(path for path in (root / "sys" / "fs").rglob("*") if path.is_file())
        try:
            walker = CgroupWalker(root, relist_seconds=0.0)
        except InvalidMounts:
            return
        whole = len(walker.sample().samples)
        for file in chance.sample(files, 5):
            data = file.read_bytes()
            place = chance.randrange(len(data) + 1)
            file.write_bytes(chance.choice([data[:place], b"", b"\0" * 9, data[:place] + b"-1" + data[place:]]))
        result = walker.sample()
        walker.close()
        assert len(result.samples) + sum(result.troubles.values()) >= whole
        assert set(result.examples) == set(result.troubles)
