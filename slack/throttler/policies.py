"""When a pending container may start: the study's four policies, each an answer with its reason and until when.

P1 `max_starting`, P2 `max_rate`, P3 `resources`, and P4 `composite`, which joins them by `all_of` and `forced_by`: a
minimum rate overrides number and load, never the maximum rate. Dependencies are no matter of policies: who is blocked
is not asked about. A figure that could not be read holds nobody back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from slack.throttler.limits import UNKNOWN_USAGE, Limits, Usage


class Rule(StrEnum):
    """What denies a start; the label of a metric."""

    STARTING = "starting"
    SHARE = "share"
    RATE = "rate"
    LOAD = "load"
    CPU = "cpu"
    CPU_PRESSURE = "cpu-pressure"
    IO_PRESSURE = "io-pressure"


@dataclass(frozen=True, slots=True)
class Situation:
    """What policies look at."""

    now: float
    starting: int = 0
    """Containers in `starting`."""
    usage: Usage = UNKNOWN_USAGE
    last_start: float | None = None
    """The latest grant."""
    pending_since: float | None = None
    """Since when something has been pending without a break; None: nothing is."""
    slot_free_at: float | None = None
    """When the first of those that start is late; None: not known."""
    within_share: bool = True
    """Whether anything pending is of a namespace with slots left to it."""


@dataclass(frozen=True, slots=True)
class Allow:
    """A start is allowed."""

    forced: bool = False
    """Only because of minRate."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deny:
    """A start is not allowed now."""

    reason: str
    """For people; several are joined."""
    until: float | None
    """By then the answer will be another, if not earlier; None: nobody knows."""
    rules: tuple[Rule, ...]


Verdict = Allow | Deny
Policy = Callable[[Situation], Verdict]
_ALLOWED = Allow()


def max_starting(slots: int | None) -> Policy:
    """P1: fewer than so many start now, whatever their pods."""

    def policy(situation: Situation) -> Verdict:
        if slots is None or situation.starting < slots:
            return _ALLOWED
        return Deny(f"{situation.starting} start, and {slots} may", situation.slot_free_at, (Rule.STARTING,))

    return policy


def max_share(namespace_slots: int | None) -> Policy:
    """No namespace has more than its share of the slots."""

    def policy(situation: Situation) -> Verdict:
        if namespace_slots is None or situation.within_share:
            return _ALLOWED
        reason = f"each namespace that waits has its {namespace_slots} slots"
        return Deny(reason, situation.slot_free_at, (Rule.SHARE,))

    return policy


def max_rate(gap_seconds: float) -> Policy:
    """P2: from one start to the next it takes at least this."""

    def policy(situation: Situation) -> Verdict:
        if situation.last_start is None:
            return _ALLOWED
        until = situation.last_start + gap_seconds
        if situation.now >= until:
            return _ALLOWED
        return Deny(f"one start in {gap_seconds:g} s", until, (Rule.RATE,))

    return policy


def below(rule: Rule, limit: float | None, figure: Callable[[Usage], float | None], name: str) -> Policy:
    """Build a policy that wants a figure of the node below its limit."""

    def policy(situation: Situation) -> Verdict:
        found = figure(situation.usage)
        if limit is None or found is None or found < limit:
            return _ALLOWED
        shown = (f"{found:.2f}", f"{limit:g}") if rule is Rule.LOAD else (f"{found:.0%}", f"{limit:.0%}")
        return Deny(f"{name} is {shown[0]}, and is to be below {shown[1]}", None, (rule,))

    return policy


def resources(limits: Limits) -> Policy:
    """P3: CPU, I/O and load average are below their limits."""
    return all_of(
        below(Rule.LOAD, limits.max_load1, lambda usage: usage.load1, "the load average"),
        below(Rule.CPU, limits.max_cpu, lambda usage: usage.cpu, "CPU use"),
        below(Rule.CPU_PRESSURE, limits.max_cpu_pressure, lambda usage: usage.cpu_pressure, "CPU pressure"),
        below(Rule.IO_PRESSURE, limits.max_io_pressure, lambda usage: usage.io_pressure, "I/O pressure"),
    )


def all_of(*policies: Policy) -> Policy:
    """Allow what all allow. Who denies says so; when that ends is known only where each of them knows."""

    def policy(situation: Situation) -> Verdict:
        forced: Allow | None = None
        denials: list[Deny] = []
        for each in policies:
            verdict = each(situation)
            if isinstance(verdict, Deny):
                denials.append(verdict)
            elif verdict.forced:
                forced = verdict
        if not denials:
            return forced or _ALLOWED
        known = [denial.until for denial in denials if denial.until is not None]
        return Deny(
            "; ".join(denial.reason for denial in denials),
            max(known) if len(known) == len(denials) else None,
            tuple(rule for denial in denials for rule in denial.rules),
        )

    return policy


def forced_by(after_seconds: float | None, policy: Policy) -> Policy:
    """Allow what `policy` denies once something has been pending, and nothing started, for so long."""

    def forcing(situation: Situation) -> Verdict:
        verdict = policy(situation)
        due = forced_at(situation, after_seconds)
        if due is None or isinstance(verdict, Allow):
            return verdict
        if situation.now >= due:
            return Allow(True, f"nothing had started for {after_seconds:g} s; {verdict.reason}")
        return Deny(verdict.reason, due if verdict.until is None else min(due, verdict.until), verdict.rules)

    return forcing


def forced_at(situation: Situation, after_seconds: float | None) -> float | None:
    """Return when a start is forced; None: minRate is off, or nothing is pending."""
    if after_seconds is None or situation.pending_since is None:
        return None
    last = situation.pending_since if situation.last_start is None else situation.last_start
    return max(situation.pending_since, last) + after_seconds


def composite(limits: Limits) -> Policy:
    """P4: number, share and load, forced by the minimum rate; and the maximum rate, which binds forced starts too."""
    normal = all_of(max_starting(limits.slots), max_share(limits.namespace_slots), resources(limits))
    return all_of(max_rate(limits.gap_seconds), forced_by(limits.force_after_seconds, normal))
