import os
import subprocess
from pathlib import Path

import pytest

from slack.audit.kernel.probe import QUOTA_US, ProbeState, is_emulated, probe, verdict
from slack.audit.sources.cpustat import CpuStat
from slack.audit.sources.mounts import InvalidMounts, find_mounts


def counters(periods: int, throttled: int, use: float) -> CpuStat:
    return CpuStat(periods, throttled, throttled * 80_000_000, None, int(periods * QUOTA_US * 1000 * use))


def test_throttling_far_below_the_quota_is_the_bug() -> None:
    found = verdict(counters(50, 40, 0.4))
    assert found.state is ProbeState.BAD
    assert found.reason == "throttled in 40 of 50 periods with 40% of the quota used"


@pytest.mark.parametrize(
    ("stat", "reason"),
    [
        (counters(50, 0, 0.5), "throttled in 0 of 50 periods"),
        (counters(50, 4, 0.5), "throttled in 4 of 50 periods"),  # bursts across the end of a period
        (counters(50, 45, 0.9), "too busy to tell"),
        (counters(12, 12, 0.4), "only 12 periods"),
        (counters(0, 0, 0.0), "only 0 periods"),
    ],
)
def test_everything_else_proves_nothing_and_nothing_is_called_good(stat: CpuStat, reason: str) -> None:
    found = verdict(stat)
    assert found.state is ProbeState.NOT_SHOWN
    assert reason in found.reason
    assert "good" not in {state.value for state in ProbeState}


def test_emulated_cpus_are_told_by_their_name() -> None:
    assert is_emulated("model name\t: QEMU TCG CPU version 2.5+\n")
    assert not is_emulated("model name\t: Intel(R) Xeon(R) Processor\n")


def test_without_a_controller_it_does_not_run_and_says_why(tmp_path: Path) -> None:
    found = probe(root=tmp_path)
    assert found.state is ProbeState.NOT_RUN
    assert "no cgroup cpu controller" in found.reason


def mine(folder: Path) -> list[Path]:
    return list(folder.glob(f"resource-slack-probe-{os.getpid()}*"))


def real_mount() -> Path:
    try:
        folder = Path(find_mounts(Path("/")).cpu.directory)
    except InvalidMounts as error:
        pytest.skip(str(error))
    if not os.access(folder, os.W_OK):
        pytest.skip("no cgroups can be made here")
    return folder


def test_a_sound_kernel_does_not_show_it_and_nothing_is_left_behind() -> None:
    folder = real_mount()
    found = probe(seconds=4.0)
    assert found.state is ProbeState.NOT_SHOWN
    assert found.periods > 0
    assert mine(folder) == []


def test_a_child_that_fails_or_hangs_is_told_and_nothing_is_left_behind() -> None:
    folder = real_mount()

    def hangs(_: str, seconds: float) -> None:
        raise subprocess.TimeoutExpired("probe", seconds)

    found = probe(burn=hangs)
    assert found.state is ProbeState.NOT_RUN
    assert "timed out" in found.reason
    assert mine(folder) == []
