"""What else uses this machine's CPUs: figures of a quota mean something only where nobody else is in the way."""

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

QUIET_SHARE = 0.06
"""Of all CPUs; a browser or a compiler takes far more, a kernel's own threads far less."""
_ATTEMPTS = 4
_WAIT_SECONDS = 15.0
_LOOK_SECONDS = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Moment:
    """How much CPU time was used up to now: by all (with what the hypervisor took), and by this process' ended ones."""

    at_seconds: float
    all_seconds: float
    own_seconds: float

    @classmethod
    def now(cls) -> "Moment":
        """Read /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal."""
        words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
        busy = sum(int(word) for place, word in enumerate(words) if place not in (3, 4)) / _TICKS
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(time.monotonic(), busy, sum(usage.ru_utime + usage.ru_stime for usage in usages))

    def share_of_others_since(self, before: "Moment") -> float:
        """Return the share of all CPUs that others used."""
        others = self.all_seconds - before.all_seconds - (self.own_seconds - before.own_seconds)
        capacity = (self.at_seconds - before.at_seconds) * (os.cpu_count() or 1)
        return max(0.0, others / capacity)


def on_a_quiet_machine(scenario: Callable[[], None]) -> None:
    """Run a scenario that others' work would spoil; when it fails while they worked, wait and run it again.

    Others are all that is not this process and its children, whatever their control group, and the hypervisor. What
    comes before all else keeps them from the CPUs while it runs, so after a failure they are looked for once more.
    A failure with nobody else there is one. Where the machine is never quiet the test is skipped and says so.
    """
    shares = []
    for attempt in range(_ATTEMPTS):
        if attempt:
            _wait_until_quiet()
        before = Moment.now()
        try:
            scenario()
        except AssertionError as error:
            share = max(Moment.now().share_of_others_since(before), _share_of_others_now())
            if share < QUIET_SHARE:
                raise
            shares.append(f"{share:.0%}")
            last = error
        else:
            return
    pytest.skip(f"others used {', '.join(shares)} of this machine's CPUs in {_ATTEMPTS} attempts; the last: {last}")


def _wait_until_quiet() -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        if _share_of_others_now() < QUIET_SHARE:
            return


def _share_of_others_now() -> float:
    before = Moment.now()
    time.sleep(_LOOK_SECONDS)
    return Moment.now().share_of_others_since(before)
