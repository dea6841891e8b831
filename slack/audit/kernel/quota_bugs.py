"""Is a kernel affected by the bugs of the CFS quota, by its name? `unknown` is an answer, and says what to ask for.

Patterns of distributions come before upstream's version numbers, and a flavour's number is never compared with the
generic one. A table cannot see what a vendor patched by hand: a live probe can show that a kernel is bad, and nothing
can prove that it is good.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from slack.audit.kernel import releases as table
from slack.audit.kernel.states import Bug, Confidence, KernelState

__all__ = [
    "Bug",
    "Confidence",
    "Feature",
    "KernelFeatures",
    "KernelState",
    "KernelVerdict",
    "kernel_features",
    "kernel_verdict",
]

_CACHED = 4096
_RELEASE = re.compile(
    r"(?P<major>[0-9]{1,3})\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,6}))?(?P<rest>.*)", re.DOTALL
)
_CANDIDATE = re.compile(r"-rc[0-9]+")
_CVE = "CVE-2019-19922"
_LAST_PATCH = 999_999
"""Above every patch level: what a series ended with, or will."""


@dataclass(frozen=True, slots=True)
class KernelVerdict:
    """One kernel's verdict."""

    release: str
    """`uname -r`, as it was given."""
    state: KernelState
    bug: Bug | None
    """None unless affected."""
    why: str
    """One sentence for people."""
    source: str | None
    """Where the table's line is from; None for unknown."""
    confidence: Confidence | None
    """None for unknown."""
    fixed_in: str | None = None
    """The first good release of that series, where there is one."""
    ask: str | None = None
    """What would decide an unknown one: a command, and what to look for."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that kernels have from a version on."""

    name: str
    present: bool | None
    """None: a vendor's kernel below that version, which may have it ported back, or a name that is not understood."""
    since: str
    confidence: Confidence
    note: str = ""


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """What this kernel can do about quotas. A file that is there is better evidence than any of these."""

    burst: Feature
    """cpu.max.burst, cpu.cfs_burst_us."""
    burst_statistics: Feature
    """nr_bursts and burst_usec in cpu.stat."""
    stat_local: Feature
    """cpu.stat.local: time in which a cgroup stood still for an ancestor's quota."""
    burst_survives_quota: Feature
    """A write of cpu.max leaves cpu.max.burst as it is (before: write the burst again after each resize)."""
    task_throttling: Feature
    """Threads stop on their way out of the kernel, not where they hold its locks."""


_WINDOWS = re.compile(r"10\.0\.\d{5}(\.\d+)?")
"""status.nodeInfo.kernelVersion of a Windows node."""


@dataclass(frozen=True, slots=True)
class _Release:
    text: str
    series: tuple[int, int]
    patch: int
    rest: str
    """What follows the numbers; '' for kernel.org's own."""


@lru_cache(_CACHED)
def kernel_verdict(release: str, version: str = "") -> KernelVerdict:
    """Return what the table says of a kernel.

    Args:
        release: `uname -r`, or a Node's status.nodeInfo.kernelVersion.
        version: /proc/version or `uname -v`; only Debian's patch level needs it.
    """
    if _WINDOWS.fullmatch(release.strip()):
        return _unknown(release, "a build number of Windows, which has no CFS quotas", "")
    known = _parsed(release)
    if known is None:
        return _unknown(release, "the name does not begin with a kernel's version", "uname -r")
    if known.series >= table.MAINLINE_FIXED:
        return KernelVerdict(
            release,
            KernelState.FIXED,
            None,
            f"{known.series[0]}.{known.series[1]} was made after the fix (5.4-rc1)",
            table.MAINLINE_SOURCE,
            Confidence.HIGH,
            "5.4-rc1",
        )
    for vendor in table.VENDORS:
        if match := vendor.pattern.fullmatch(known.text):
            return _by_vendor(release, vendor, match["number"], known.text[: match.start("number")])
    if match := table.DEBIAN.fullmatch(known.text):
        return _debian(release, match["series"], version)
    if not known.rest or _CANDIDATE.fullmatch(known.rest):
        return _upstream(release, known, "")
    for name, pattern in table.KEEPS_UPSTREAM:
        if pattern.fullmatch(known.rest):
            return _upstream(release, known, name)
    return _unknown(
        release,
        "a vendor's kernel that the table has no line for; its patch level is not kernel.org's, and one flavour's "
        "number says nothing of another's",
        f"the changelog of that kernel package (apt changelog linux-image-{known.text}, or rpm -q --changelog "
        f"kernel-{known.text}): look for {_CVE}; and uname -v",
    )


def _parsed(release: str) -> _Release | None:
    text = release.strip()
    match = _RELEASE.fullmatch(text)
    if match is None or len(text) > 200:
        return None
    return _Release(text, (int(match["major"]), int(match["minor"])), int(match["patch"] or 0), match["rest"])


def _unknown(release: str, why: str, ask: str) -> KernelVerdict:
    return KernelVerdict(release, KernelState.UNKNOWN, None, why, None, None, ask=ask)


def _by_vendor(release: str, vendor: table.Vendor, number: str, prefix: str) -> KernelVerdict:
    numbers = tuple(int(part) for part in number.split("."))
    fixed_in = prefix + vendor.fixed_text
    if numbers >= vendor.fixed:
        why = f"{vendor.name}: {number} is not before {vendor.fixed_text}, which has the fix"
        return KernelVerdict(release, KernelState.FIXED, None, why, vendor.source, vendor.confidence, fixed_in)
    why = f"{vendor.name}: {number} is before {vendor.fixed_text}, the first with the fix"
    # an older stream of a vendor that lives on may have got the fix under a lower number
    confidence = vendor.confidence if numbers[:1] == vendor.fixed[:1] or len(vendor.fixed) == 1 else Confidence.MEDIUM
    return KernelVerdict(release, KernelState.AFFECTED, vendor.bug, why, vendor.source, confidence, fixed_in)


def _debian(release: str, series: str, version: str) -> KernelVerdict:
    match = re.search(table.DEBIAN_VERSION.format(series=re.escape(series)), version)
    known = _parsed(match["version"]) if match else None
    if known is not None:
        return _upstream(release, known, "Debian")
    whole = _whole_series(release, series)
    return whole or _unknown(
        release,
        "Debian's uname -r has no patch level",
        f"uname -v (or /proc/version): it names the patch level, such as `Debian {series}.67-2`",
    )


def _whole_series(release: str, series: str) -> KernelVerdict | None:
    """Judge by the series alone, where its first and its last patch level are in one state; None where they are not.

    The 0 in Debian's 4.9.0-11 is no patch level, so the reason must not name one.
    """
    first, last = (_parsed(f"{series}.{patch}") for patch in (0, _LAST_PATCH))
    assert first is not None
    assert last is not None
    oldest, newest = _upstream(release, first, "Debian"), _upstream(release, last, "Debian")
    if oldest.state is not newest.state:
        return None
    bug = oldest.bug if oldest.bug is newest.bug else Bug.EITHER
    why = newest.why if oldest.bug is newest.bug else f"{series}.y has one of the two bugs at every patch level"
    return replace(
        newest, bug=bug, why=f"{why}, so the patch level that Debian's uname -r lacks is not needed", fixed_in=None
    )


def _upstream(release: str, known: _Release, vendor: str) -> KernelVerdict:
    """Judge by kernel.org's numbers; a vendor that keeps them may have taken the fix before kernel.org did."""
    line = next((series for series in table.SERIES if series.series == known.series), None)
    name = f"{known.series[0]}.{known.series[1]}"
    prefix = f"{vendor}, by kernel.org's patch level: " if vendor else ""
    if line is None:
        return _without_line(release, known, vendor, prefix)
    sure = Confidence.MEDIUM if vendor else line.confidence
    if line.fixed is None:
        why = f"{prefix}{name}.y never got the fix"
        return KernelVerdict(release, KernelState.AFFECTED, line.bug, why, line.source, sure)
    if known.patch < line.fixed:
        fixed_in = None if line.after else f"{name}.{line.fixed}"
        why = f"{prefix}{name}.{known.patch} is before {name}.{line.fixed}" + (
            "" if line.after else ", the first good one"
        )
        return KernelVerdict(release, KernelState.AFFECTED, line.bug, why, line.source, sure, fixed_in)
    if line.after is not None:
        why = f"{prefix}from {name}.{line.fixed} on the fix of the clock drift is taken back, and with it slice expiry"
        return KernelVerdict(release, KernelState.AFFECTED, line.after, why, line.source, line.confidence)
    why = f"{prefix}{name}.{known.patch} is not before {name}.{line.fixed}, which has the fix"
    return KernelVerdict(release, KernelState.FIXED, None, why, line.source, line.confidence, f"{name}.{line.fixed}")


def _without_line(release: str, known: _Release, vendor: str, prefix: str) -> KernelVerdict:
    if known.series < table.FIRST_DRIFT:
        why = f"{prefix}it is older than both bugs (3.16-rc1 brought the first)"
        sure = Confidence.MEDIUM if vendor else Confidence.HIGH
        return KernelVerdict(release, KernelState.NEVER_HAD_IT, None, why, table.DRIFT_SOURCE, sure)
    why = f"{prefix}made between 3.16-rc1, which brought the clock drift, and its fix in 4.18"
    return KernelVerdict(release, KernelState.AFFECTED, Bug.CLOCK_DRIFT, why, table.DRIFT_SOURCE, Confidence.MEDIUM)


@lru_cache(_CACHED)
def kernel_features(release: str) -> KernelFeatures:
    """Return what a kernel of that name can do."""
    known = _parsed(release)
    return KernelFeatures(
        burst=_feature("burst", known, (5, 14), Confidence.HIGH),
        burst_statistics=_feature("burst statistics", known, (5, 15), Confidence.MEDIUM),
        stat_local=_feature(
            "cpu.stat.local", known, (6, 6), Confidence.MEDIUM, "seen to be absent in 6.1 and present in 6.12"
        ),
        burst_survives_quota=_feature(
            "cpu.max leaves cpu.max.burst alone", known, (6, 10), Confidence.HIGH, "49217ea147df"
        ),
        task_throttling=_feature("task-based throttling", known, (6, 18), Confidence.LOW, "e1fad12dcb66"),
    )


def _feature(
    name: str, known: _Release | None, since: tuple[int, int], confidence: Confidence, note: str = ""
) -> Feature:
    text = f"{since[0]}.{since[1]}"
    if known is None:
        return Feature(name, None, text, Confidence.LOW, note)
    if known.series >= since:
        return Feature(name, True, text, confidence, note)
    own = not known.rest or bool(_CANDIDATE.fullmatch(known.rest)) or bool(table.DEBIAN.fullmatch(known.text))
    return Feature(name, False if own else None, text, confidence if own else Confidence.LOW, note)
