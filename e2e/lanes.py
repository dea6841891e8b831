"""Runs the suites: those that mostly wait beside the others, on a cluster of their own, so that they cost no time.

Usage:
    python -m e2e.lanes                      # all; what `make e2e` does
    python -m e2e.lanes -k burst             # arguments are pytest's, and then there is one lane

What the second lane printed follows when the first has ended. Each lane starts a local control plane; on kind, which
has one cluster, there is one lane, and before it the suites that only kind can run.

Two control planes share the machine's cores, and what a suite judges may be what the other lane has cost it. So suites
that failed are run once more, alone and on a control plane of their own, if they are few; what fails there as well has
failed. What passes only there is named at the end: it may be the machine, and may be a fault that shows under load.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SUITES = Path(__file__).parent / "suites"
ON_KIND = Path(__file__).parent / "kind"
WAITING = (
    "test_quiet.py",
    "test_audit_prometheus.py",
    "test_upgrade.py",
    "test_held_preemptors.py",
    "test_scaling.py",
    "test_objective.py",
    "test_stable_set.py",
    "test_burst_eviction.py",
    "test_load.py",
    "test_load_watcher.py",
    "test_web_views.py",
    "test_status_age.py",
    "test_gitops.py",
    "test_workflows.py",
    "test_scorer.py",
    "test_throttle_policy.py",
    "test_throttler_admission.py",
    "test_throttler_evictions.py",
    "test_throttler_status.py",
    "test_throttler_configmap.py",
    "test_load_chain.py",
    "test_load_faults.py",
    "test_companion_rights.py",
    "test_chart_demand.py",
    "test_demand_brokers.py",
    "test_redis_streams.py",
    "test_demand_proxy.py",
    "test_demand_pools.py",
    "test_demand_slack.py",
)
"""They look at what does not happen in minutes, at rates of a Prometheus, or at counts; none needs a CPU to itself."""
MOST_AGAIN = 3
"""So many suites are run a second time; where more fail it is not the machine."""
TESTS_FAILED = 1
"""pytest's exit code; any other says that not all were run."""


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


def _one_lane(arguments: Sequence[str]) -> int:
    return _run(_command(str(SUITES), *arguments))


def _run(command: Sequence[str]) -> int:
    """Run one to its end, also where the user has had enough: it has a cluster to take away, if not a Docker."""
    lane = subprocess.Popen(command)
    with _passing_on(lane):
        try:
            return lane.wait()
        except (KeyboardInterrupt, SystemExit):
            lane.wait()
            raise


@contextmanager
def _passing_on(lane: "subprocess.Popen[Any]") -> Iterator[None]:
    """Give a lane the signals that end this process; a Ctrl-C it has from the terminal itself."""

    def pass_on(number: int, _: FrameType | None) -> None:
        lane.terminate()  # pytest takes no other as a request
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _two_lanes() -> int:
    with tempfile.TemporaryDirectory() as caches:
        first_cache, second_cache = Path(caches, "first"), Path(caches, "second")
        codes = _beside_each_other(first_cache, second_cache)
        failed = _failed(first_cache) | _failed(second_cache)
    suites = sorted({name.partition("::")[0] for name in failed})
    if not {*codes} <= {0, TESTS_FAILED} or not 0 < len(suites) <= MOST_AGAIN:
        return codes[0] or codes[1]
    print(f"\nonce more, alone: {', '.join(suites)}", flush=True)
    again = _run(_command(*suites))
    if again == 0:
        print("\npassed alone, failed beside the other lane:", *sorted(failed), sep="\n  ", flush=True)
    return again


def _beside_each_other(first_cache: Path, second_cache: Path) -> tuple[int, int]:
    waiting = [str(SUITES / name) for name in WAITING]
    with tempfile.TemporaryFile("w+") as told:
        second = subprocess.Popen(_command(*waiting, *_into(second_cache)), stdout=told, stderr=subprocess.STDOUT)
        try:
            first = _one_lane([*(f"--ignore={path}" for path in waiting), *_into(first_cache)])
            print(f"\nbeside them: {', '.join(WAITING)}", flush=True)
            with _passing_on(second):
                beside = second.wait()
        except (KeyboardInterrupt, SystemExit) as ended:
            if isinstance(ended, SystemExit) and second.poll() is None:
                second.terminate()
            second.wait()
            raise
        finally:
            told.seek(0)
            sys.stdout.write(told.read())
            sys.stdout.flush()
    return first, beside


def _into(cache: Path) -> list[str]:
    """Return arguments for a cache of pytest's own; two lanes in one would lose what the other wrote."""
    return ["-o", f"cache_dir={cache}"]


def _failed(cache: Path) -> set[str]:
    """Return what failed, or could not be set up, by pytest's node ids."""
    try:
        found: dict[str, bool] = json.loads((cache / "v" / "cache" / "lastfailed").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return set()
    return set(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one lane or two; returns an exit code that is 0 only when all passed."""
    try:
        return _lanes(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        return 130


def _lanes(given: Sequence[str]) -> int:
    if given or os.environ.get("BACKEND", "local") != "local":
        first = 0 if given else _run(_command(str(ON_KIND), "-s"))
        return first or _one_lane(given)
    return _two_lanes()


if __name__ == "__main__":
    sys.exit(main())
