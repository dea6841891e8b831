"""Runs the core of the suites on real components: what every change must pass, in twelve minutes on two cores.

Usage:
    python -m e2e.core                # what `make e2e-core` and CI do
    python -m e2e.core test_faults    # some of the suites

The tests are those marked `core` in the files of `SUITES`. Each suite is a pytest session with a control plane of its
own, so that no suite depends on another. Two run beside each other. A suite that fails is run once more, alone: the
other one may have cost it the time that it judged. The end of the output names every suite that needed that. All other
suites are `make e2e`.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.harness import build
from e2e.harness.errors import HarnessError
from e2e.harness.machine_speed import describe, time_scale

FOLDER = Path(__file__).parent / "suites"
SUITES = (
    "test_faults.py",
    "test_burst_eviction.py",
    "test_upgrade.py",
    "test_main_job.py",
    "test_demand_pools.py",
    "test_chart_install.py",
    "test_throttler_gate.py",
    "test_audit_cluster.py",
    "test_scorer.py",
    "test_load_watcher.py",
    "test_companion_rights.py",
    "test_unbound.py",
    "test_capacity_buffers.py",
)
"""Main job in both forms, burst, faults, rights, the chart, buffers, and one suite per companion; the longest first."""
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "helm",
    "kubelet",
    "nats-server",
)
"""What these suites run; all of it is built before the first one starts."""
CORE = "core and not unbound"
"""Which tests of a suite; of those that run in both forms of placeholders (`e2e.conftest.hold`) the bound one."""
BESIDE_EACH_OTHER = 2
SUITE_SECONDS = 150.0
"""What a suite may take on the reference machine before it is ended; `machine_speed` stretches it."""
REPORT = "junit.xml"
NO_TEST_WAS_RUN = 5
"""pytest's exit code: a suite without a core test is a fault of `SUITES`."""


@dataclass(frozen=True)
class SuiteResult:
    """How one session ended: pytest's exit code, its counts, how long it took, and what it printed."""

    name: str
    exit_code: int
    passed: int
    failed: int
    skipped: int
    seconds: float
    output: str

    def line(self) -> str:
        """Return one line for the terminal."""
        verdict = "passed" if self.exit_code == 0 else "FAILED"
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"{verdict} {self.name:<28} {self.seconds:6.0f} s  {counts}"


def run_suite(name: str) -> SuiteResult:
    """Run the core tests of one suite in a session of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = subprocess.run(
                suite_command(name, Path(folder)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=SUITE_SECONDS * time_scale(),
            )
            code, output = ended.returncode, ended.stdout
        except subprocess.TimeoutExpired as error:
            code = -1
            output = f"{_text(error.stdout)}\nended after {error.timeout:.0f} s, which is more than a suite may take"
        passed, failed, skipped = read_counts(Path(folder, REPORT))
    return SuiteResult(name, code, passed, failed, skipped, time.monotonic() - began, output)


def suite_command(name: str, folder: Path) -> list[str]:
    """Return the session of one suite; its report and pytest's cache are in a folder of its own."""
    own = (f"--junitxml={folder / REPORT}", "-o", f"cache_dir={folder / 'cache'}")
    return [sys.executable, "-m", "pytest", "--durations=5", str(FOLDER / name), "-m", CORE, *own]


def read_counts(report: Path) -> tuple[int, int, int]:
    """Return how many tests passed, failed (or could not be set up) and were skipped, by pytest's JUnit report."""
    if not report.is_file():
        return 0, 1, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))  # pytest wrote it just now
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failures - errors - skipped, failures + errors, skipped


def run_all(names: Sequence[str]) -> list[SuiteResult]:
    """Run suites, `BESIDE_EACH_OTHER` at a time; print each one's result as it ends. Returns them in that order."""
    waiting, results, lock = deque(names), list[SuiteResult](), threading.Lock()

    def work() -> None:
        while True:
            try:
                name = waiting.popleft()
            except IndexError:
                return
            found = run_suite(name)
            with lock:
                results.append(found)
                print_result(found)

    workers = [threading.Thread(target=work, name=f"suites-{number}") for number in range(BESIDE_EACH_OTHER)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def print_result(found: SuiteResult) -> None:
    """Print a suite's line, and all that it printed if it failed."""
    if found.exit_code != 0:
        print(f"\n--- {found.name}\n{found.output}\n--- end of {found.name}", flush=True)
    print(found.line(), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the core, or those of its suites that are named; returns 0 only if every suite passed in the end."""
    wanted = {f"{name.removesuffix('.py')}.py" for name in arguments}
    if wanted - set(SUITES):
        print(f"no such suite of the core: {', '.join(sorted(wanted - set(SUITES)))}; known: {', '.join(SUITES)}")
        return 2
    print(describe(), flush=True)
    try:
        build.ensure(PROGRAMS)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return 1
    results = run_all([name for name in SUITES if not wanted or name in wanted])
    final = [again_alone(found) if found.exit_code not in (0, NO_TEST_WAS_RUN) else found for found in results]
    repeated = [(first, last) for first, last in zip(results, final, strict=True) if first is not last]
    for first, last in repeated:
        print(f"run a second time, alone: {first.name} {'passed' if last.exit_code == 0 else 'failed again'}")
    passed, failed = sum(found.passed for found in final), sum(found.failed for found in final)
    print(f"core: {passed} passed, {failed} failed, {sum(found.skipped for found in final)} skipped", flush=True)
    return 0 if all(found.exit_code == 0 for found in final) else 1


def again_alone(found: SuiteResult) -> SuiteResult:
    """Run a suite that failed once more while no other runs, and print how that ended."""
    print(f"\nonce more, alone: {found.name}", flush=True)
    again = run_suite(found.name)
    print_result(again)
    return again


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(sys.argv[1:]))
