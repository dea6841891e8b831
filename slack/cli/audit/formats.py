"""How targets, figures and verdicts of an audit are written, the same in tables, markdown and pictures."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slack.audit.findings.finding import Mark, Severity
from slack.audit.findings.sample import CgroupLevel
from slack.audit.findings.window import WindowState
from slack.audit.kernel.states import KernelState
from slack.audit.results.source_kind import SourceKind
from slack.audit.sources.read_errors import printable

if TYPE_CHECKING:
    from slack.audit.findings.finding import Finding
    from slack.audit.findings.sample import CgroupTarget
    from slack.audit.kernel.quota_bugs import KernelVerdict

_UID_SHOWN, _ID_SHOWN = 13, 12
_LONGEST_SHOWN = 120
"""Signs of a name: what Kubernetes makes is shorter, and a table has other columns."""
_SHORT_MARKS = {
    Mark.STOPS: "stops",
    Mark.INHERITED: "quota above",
    Mark.AT_LIMIT: "at limit",
    Mark.BURSTY: "bursty",
    Mark.BELOW_LIMIT: "below limit",
    Mark.MANY_THREADS: "many threads",
    Mark.BOUNDARY: "boundary",
}
"""In the order in which they are told."""
_STATES = {
    WindowState.NO_LIMIT: "no limit",
    WindowState.TOO_FEW: "too few periods",
    WindowState.RESET: "reset",
    WindowState.APPEARED: "new",
    WindowState.GONE: "gone",
}


def target_name(target: "CgroupTarget", *, node: bool = False) -> str:
    """Return a target's name as people write it: shop/api-7d9f/main, or pod 4c1f0a2b-1c2d/3a9b12ab34cd without names.

    Args:
        target: any level.
        node: put the node's name in front.
    """
    found = target.path or "/"
    if target.level in (CgroupLevel.POD, CgroupLevel.CONTAINER) and (target.pod or target.pod_uid):
        known = f"{target.namespace}/{target.pod}" if target.namespace else target.pod
        found = known or f"pod {target.pod_uid[:_UID_SHOWN]}"
        if target.level is CgroupLevel.CONTAINER:
            found += f"/{target.container or target.container_id[:_ID_SHOWN] or '?'}"
    return shown(f"{target.node}: {found}" if node and target.node else found)


def shown(name: str) -> str:
    """Return a name for people: clean, and a very long one without its middle. Machines and commands get all of it."""
    text = clean(name)
    if len(text) <= _LONGEST_SHOWN:
        return text
    half = (_LONGEST_SHOWN - 1) // 2
    return f"{text[:half]}\u2026{text[-half:]}"


def clean(text: str) -> str:
    """Return a text that cannot move a terminal's cursor: names of cgroups and kernels may be any characters."""
    return text if text.isprintable() else printable(text)


def percent(ratio: float | None) -> str:
    """Return a share, such as `79.1 %`; what is not known is `-`, never 0 %."""
    return "-" if ratio is None else f"{ratio * 100:.1f} %"


def cores(value: float | None) -> str:
    """Return CPU time a second: `0.40`, `12.5`."""
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def milliseconds(seconds: float | None) -> str:
    """Return a stop: `79 ms`, `0.8 ms`."""
    if not seconds:
        return "-"
    value = seconds * 1000
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def span(seconds: float) -> str:
    """Return how long a window was: `10.0 s`, `5 min`, `1 h`."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def state(found: WindowState) -> str:
    """Return a state without figures in the table's words."""
    return _STATES.get(found, str(found))


def use_of_limit(finding: "Finding") -> str:
    """Return use and limit in cores."""
    if finding.limit_cores is None:
        return f"{cores(finding.use_cores)}/none"
    return f"{cores(finding.use_cores)}/{cores(finding.limit_cores)}"


def verdict(finding: "Finding") -> str:
    """Return severity, marks and, where it is another's, whose quota it is, in few words."""
    if finding.window.state is not WindowState.MEASURED and finding.severity is Severity.NONE:
        return state(finding.window.state)
    if finding.severity is Severity.NONE:
        return "fine"
    marks = short_marks(finding.marks)
    blamed, target = finding.blamed, finding.window.target
    whose = f" ({blamed.level}'s)" if blamed is not None and blamed.key != target.key else ""
    return f"{finding.severity.name.lower()}{': ' + ', '.join(marks) if marks else ''}{whose}"


def bugs(found: "KernelVerdict") -> str:
    """Return what the kernel table says in a few words."""
    return {
        KernelState.AFFECTED: f"affected by the CFS quota bug ({found.bug})",
        KernelState.FIXED: "the CFS quota bugs are fixed",
        KernelState.NEVER_HAD_IT: "never had the CFS quota bugs",
        KernelState.UNKNOWN: "not known whether it has the CFS quota bugs",
    }[found.state]


def short_marks(marks: Iterable[Mark]) -> list[str]:
    """Return marks in the table's words, in one order."""
    given = frozenset(marks)
    return [text for mark, text in _SHORT_MARKS.items() if mark in given]


def source_name(kind: SourceKind) -> str:
    """Return what a source is called in a sentence."""
    return {
        SourceKind.CGROUPS: "this node's cgroups",
        SourceKind.CADVISOR: "cAdvisor through the API server",
        SourceKind.PROMETHEUS: "Prometheus",
    }[kind]
