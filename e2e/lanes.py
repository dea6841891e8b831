"""Runs the suites: those that mostly wait beside the others, on a cluster of their own, so that they cost no time.

Usage:
    python -m e2e.lanes                      # all; what `make e2e` does
    python -m e2e.lanes -k burst             # arguments are pytest's, and then there is one lane

What the second lane printed follows when the first has ended. Each lane starts a local control plane; on kind, which
has one cluster, there is one lane.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

SUITES = Path(__file__).parent / "suites"
WAITING = (
    "test_quiet.py",
    "test_audit_prometheus.py",
    "test_upgrade.py",
    "test_held_preemptors.py",
    "test_scaling.py",
    "test_objective.py",
    "test_stable_set.py",
    "test_making_way.py",
    "test_load.py",
    "test_load_watcher.py",
    "test_web_views.py",
    "test_status_age.py",
    "test_gitops.py",
    "test_workflows.py",
    "test_scorer.py",
    "test_throttle_policy.py",
    "test_throttler_admission.py",
    "test_throttler_status.py",
    "test_load_chain.py",
    "test_load_faults.py",
    "test_companion_rights.py",
)
"""They look at what does not happen in minutes, at rates of a Prometheus, or at counts; none needs a CPU to itself."""


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


def _one_lane(arguments: Sequence[str]) -> int:
    return subprocess.run(_command(str(SUITES), *arguments), check=False).returncode


def _two_lanes() -> int:
    waiting = [str(SUITES / name) for name in WAITING]
    with tempfile.TemporaryFile("w+") as told:
        second = subprocess.Popen(_command(*waiting), stdout=told, stderr=subprocess.STDOUT)

        def pass_on(number: int, _: FrameType | None) -> None:
            second.send_signal(number)  # the first has it from the terminal, or from who ends the whole group
            raise SystemExit(128 + number)

        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, pass_on)
        try:
            first = _one_lane([f"--ignore={path}" for path in waiting])
            print(f"\nbeside them: {', '.join(WAITING)}", flush=True)
            beside = second.wait()
        except KeyboardInterrupt:
            second.wait()
            raise SystemExit(130) from None
        finally:
            told.seek(0)
            sys.stdout.write(told.read())
            sys.stdout.flush()
    return first or beside


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one lane or two; returns an exit code that is 0 only when all passed."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given or os.environ.get("BACKEND", "local") != "local":
        return _one_lane(given)
    return _two_lanes()


if __name__ == "__main__":
    sys.exit(main())
