"""What a node says of its load: the kernel's own files, and every way in which they can be no good."""

from pathlib import Path

import pytest

from slack.throttler.limits import UNKNOWN_USAGE
from slack_operator.throttler.agent.node_usage import NodeUsageReader

PRESSURE = "some avg10={:.2f} avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
FIGURES = ("load1", "cpu", "cpu_pressure", "io_pressure")


def stat(proc: Path, busy: int, idle: int, *, iowait: int = 0, steal: int = 0, guest: int = 0) -> None:
    """Write /proc/stat with these ticks since boot."""
    (proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} {iowait} 0 0 {steal} {guest} 0\ncpu0 1 2 3\nintr 5\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A node's /proc, as a DaemonSet mounts it."""
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(PRESSURE.format(12.5))
    (tmp_path / "pressure" / "io").write_text(PRESSURE.format(0.75))
    (tmp_path / "loadavg").write_text("3.25 0.18 0.12 1/80 11206\n")
    stat(tmp_path, 1000, 1000)
    return tmp_path


def test_all_figures_are_read_as_the_kernel_writes_them(proc: Path) -> None:
    usage = NodeUsageReader(proc)
    first = usage.read(100.0, 10.0)
    assert (first.load1, first.cpu_pressure, first.io_pressure) == (3.25, 0.125, 0.0075)
    assert first.cpu is None, "a share needs two looks"
    assert set(usage.unknown) == {"cpu"}
    assert usage.troubles == {}
    stat(proc, 1600, 1200, iowait=100, steal=100)
    assert usage.read(110.0, 10.0).cpu == pytest.approx(0.7), "steal is busy, waiting for I/O is not"
    assert usage.unknown == {}


def test_the_machine_s_own_files_are_read(tmp_path: Path) -> None:
    usage = NodeUsageReader(Path("/proc"))
    assert usage.read(0.0, 10.0).load1 is not None
    assert "has not been watched" in usage.unknown["cpu"]


def test_the_share_is_over_the_time_that_was_asked_for(proc: Path) -> None:
    usage = NodeUsageReader(proc)
    busy, idle = 1000, 1000
    shares = []
    for second in range(41):
        usage_now = usage.read(float(second), 10.0)
        shares.append(usage_now.cpu)
        busy, idle = (busy, idle + 100) if second < 20 else (busy + 100, idle)
        stat(proc, busy, idle)
    assert shares[20] == pytest.approx(0.0)
    assert shares[25] == pytest.approx(0.5)
    assert shares[30] == pytest.approx(1.0), "ten seconds after it became busy"


def test_a_short_window_is_kept_though_looks_are_far_apart(proc: Path) -> None:
    usage = NodeUsageReader(proc)
    usage.read(0.0, 1.0)
    stat(proc, 2000, 1000)
    assert usage.read(60.0, 1.0).cpu is None, "a minute is not a second"
    stat(proc, 2000, 2000)
    assert usage.read(61.0, 1.0).cpu == 0.0


def test_files_are_not_read_for_each_of_many_asks(proc: Path) -> None:
    usage = NodeUsageReader(proc)
    first = usage.read(1.0, 10.0)
    (proc / "loadavg").write_text("9.00 0.18 0.12 1/80 11206\n")
    assert usage.read(1.1, 10.0) is first
    assert usage.read(2.0, 10.0).load1 == 9.0


@pytest.mark.parametrize(
    ("file", "figure", "torn"),
    [
        ("loadavg", "load1", ("", "3.2", "3.25 0.18 0.12 1/80", "nan 0.18 0.12 1/80 1\n", "-1.00 0.18 0.12 1/8 1\n")),
        (
            "stat",
            "cpu",
            (
                "",
                "cpu",
                "cpu  1 2 3\n",
                "cpu  1 2 3 4 5 6 7 8 9 1",
                "cpu0 1 2 3 4 5 6 7 8 9 1\n",
                "cpu  1 2 x 4 5 6 7 8\n",
            ),
        ),
        (
            "pressure/cpu",
            "cpu_pressure",
            ("", "some avg10=1.00", "full avg10=1.00 avg60=0.00 avg300=0.00 total=1\n", PRESSURE.format(101)),
        ),
        ("pressure/io", "io_pressure", ("some avg10=-1.00 avg60=0.00 avg300=0.00 total=1\n", "\0" * 5000)),
    ],
)
def test_a_file_that_is_missing_or_torn_makes_its_own_figure_unknown(
    proc: Path, file: str, figure: str, torn: tuple[str, ...]
) -> None:
    usage = NodeUsageReader(proc)
    usage.read(0.0, 10.0)
    now = 0.0
    for text in (*torn, None):
        now += 2.0
        stat(proc, 1000 + int(now), 1000)
        if text is None:
            (proc / file).unlink()
        else:
            (proc / file).write_text(text)
        seen = usage.read(now, 10.0)
        assert getattr(seen, figure) is None, text
        assert file in usage.unknown[figure]
        others = [name for name in FIGURES if name != figure]
        assert all(getattr(seen, name) is not None for name in others), text


def test_counters_that_go_back_begin_anew(proc: Path) -> None:
    usage = NodeUsageReader(proc)
    usage.read(0.0, 10.0)
    stat(proc, 500, 400)
    assert usage.read(5.0, 10.0).cpu is None, "a CPU was taken away"
    stat(proc, 550, 450)
    assert usage.read(7.0, 10.0).cpu == pytest.approx(0.5)
    stat(proc, 700, 390)
    assert usage.read(9.0, 10.0).cpu is None, "idle time went back, and more was busy than passed"


def test_without_proc_nothing_is_known_and_why_is_said(tmp_path: Path) -> None:
    usage = NodeUsageReader(tmp_path / "absent")
    assert usage.read(0.0, 10.0) == UNKNOWN_USAGE
    assert set(usage.unknown) == set(usage.troubles) == set(FIGURES)
    assert all("No such file" in why for why in usage.unknown.values())
