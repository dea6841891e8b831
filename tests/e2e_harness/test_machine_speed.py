"""Time limits of the suites follow the machine: never shorter than on the reference, and bounded."""

import pytest

from e2e.harness import machine_speed


@pytest.mark.parametrize(
    ("slowness", "scale"),
    [
        (0.4, machine_speed.PATIENCE),
        (1.0, machine_speed.PATIENCE),
        (2.0, 2 * machine_speed.PATIENCE),
        (1e6, machine_speed.MOST),
    ],
)
def test_limits_are_stretched_by_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, slowness: float, scale: float
) -> None:
    monkeypatch.setattr(machine_speed, "slowness", lambda: slowness)
    assert machine_speed.time_scale() == scale
    assert f"{slowness:.1f} times the reference" in machine_speed.describe()


def test_the_work_takes_time_on_this_machine_and_is_measured_once() -> None:
    measured = machine_speed.slowness()
    assert measured > 0.05, "the work was not left out"
    assert machine_speed.slowness() is measured


def test_time_limits_in_command_lines_are_stretched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_speed, "slowness", lambda: 2.0)
    line = "kubectl wait slp/a --for=condition=Ready --timeout=120s && helm upgrade a b --wait --timeout=60s"
    wanted = "kubectl wait slp/a --for=condition=Ready --timeout=720s && helm upgrade a b --wait --timeout=360s"
    assert machine_speed.stretched(line) == wanted
    assert machine_speed.stretched("--timeout=6m") == "--timeout=6m"
