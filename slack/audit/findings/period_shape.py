"""One enforcement period drawn in numbers: how long busy CPUs run on a quota, and for how long they then stand still.

The kernel hands a quota out to whichever CPUs ask (kernel/sched/fair.c, assign_cfs_rq_runtime): n busy CPUs use Q in
Q / n of wall time and stop until the period ends. Ten threads on 200 ms run 20 ms and stop 80 ms; two never stop.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeriodShape:
    """What each busy CPU does in one period."""

    quota_us: int
    period_us: int
    burst_us: int
    """Saved credit that the period begins with; 0 for a load that never rests."""
    busy_cpus: float
    runs_us: float
    """From the period's start until the quota is used up, on each busy CPU; the whole period when it lasts."""
    stops_us: float
    """For the rest of the period."""
    limit_cores: float
    """quota / period."""
    ending_limit_cores: float
    """The limit with which it would not stop; the limit as it is where it does not."""

    @property
    def stops(self) -> bool:
        """Whether the quota runs out before the period does."""
        return self.stops_us > 0


def period_shape(
    quota_us: int, period_us: int, busy_cpus: float, burst_us: int = 0, *, work_us: float | None = None
) -> PeriodShape:
    """Return what each of `busy_cpus` does in a period.

    Args:
        quota_us: CPU time in a period.
        period_us: cpu.cfs_period_us or the second word of cpu.max.
        busy_cpus: CPUs that want to run all the time; fractions are means.
        burst_us: credit saved by earlier periods, all of it (cpu.max.burst); the kernel never gives more CPU time to a
            period than CPUs can use.
        work_us: CPU time of a burst that is shorter than the period; None for work without an end.

    Raises:
        ValueError: when quota, period or busy CPUs are not above 0, or the burst or work below 0.
    """
    if quota_us <= 0 or period_us <= 0 or not busy_cpus > 0 or burst_us < 0 or (work_us is not None and work_us < 0):
        raise ValueError(
            f"quota {quota_us} us, period {period_us} us, {busy_cpus} busy CPUs must be above 0, "
            f"burst {burst_us} us and work {work_us} us not below it"
        )
    wanted_us = busy_cpus * period_us if work_us is None else min(work_us, busy_cpus * period_us)
    given_us = quota_us + burst_us
    limit_cores = quota_us / period_us
    if wanted_us <= given_us:
        return PeriodShape(quota_us, period_us, burst_us, busy_cpus, float(period_us), 0.0, limit_cores, limit_cores)
    runs_us = given_us / busy_cpus
    ending_limit_cores = (wanted_us - burst_us) / period_us
    return PeriodShape(
        quota_us, period_us, burst_us, busy_cpus, runs_us, period_us - runs_us, limit_cores, ending_limit_cores
    )
