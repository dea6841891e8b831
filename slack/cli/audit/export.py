"""An audit for machines and for chats: the JSON document, markdown, and patch files for a repository.

The document is a contract: keys are added, never renamed; units are in the names, and what is not known is null.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slack.audit.advice.patches import PatchKind
from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.pressure import has_pressure
from slack.audit.findings.window import WindowState
from slack.audit.results.audit_result import AuditResult, counts_by_verdict
from slack.cli.audit.formats import (
    bugs,
    clean,
    milliseconds,
    percent,
    span,
    state,
    target_name,
    use_of_limit,
    verdict,
)
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack.audit.advice.patches import Patch
    from slack.audit.advice.rules import Advice
    from slack.audit.findings.sample import CgroupTarget
    from slack.audit.kernel.quota_bugs import KernelVerdict

SCHEMA = "resource-slack.io/audit/v1"
_FOR_TEMPLATES = (PatchKind.RAISE_LIMIT, PatchKind.RAISE_POD_LIMIT)
"""What one can commit without thinking about each workload; the others are choices and stand in the advice."""
_BACKTICKS = re.compile("`+")
_MARKUP = re.compile(r"[\\`*<\[]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def document(result: AuditResult, asked: Sequence[Finding], shown: Sequence[Finding]) -> dict[str, Any]:
    """Return one look for machines. `findings` are those that the table would show, the worst first."""
    return {
        "schema": SCHEMA,
        "source": str(result.kind),
        "at": f"{result.at:%Y-%m-%dT%H:%M:%SZ}",
        "windowSeconds": round(result.windows.seconds, 3),
        "nodes": [_node(result, name) for name in sorted(result.windows.nodes)],
        "summary": {
            "cgroups": len(asked),
            "states": counts_by_verdict(tuple(asked)),
            "worst": _severity(max((finding.severity for finding in asked), default=Severity.NONE)),
        },
        "troubles": [
            {"trouble": str(trouble), "count": count, "example": result.windows.examples.get(trouble, "")}
            for trouble, count in sorted(result.windows.troubles.items())
            if count
        ],
        "findings": [finding_document(result, finding) for finding in shown],
    }


def finding_document(result: AuditResult, finding: Finding) -> dict[str, Any]:
    """Return one finding with its window and advice for machines."""
    window = finding.window
    return {
        **target_document(window.target),
        "state": str(window.state),
        "severity": _severity(finding.severity),
        "marks": sorted(str(mark) for mark in finding.marks),
        "throttledRatio": finding.throttled_ratio,
        "timeLostRatio": finding.lost_ratio,
        "pressureRatio": finding.pressure_ratio,
        "neighboursRatio": finding.neighbours_ratio,
        "stopSeconds": finding.stop_seconds,
        "busyCpus": finding.busy_cpus,
        "useCores": finding.use_cores,
        "limitCores": finding.limit_cores,
        "lostCores": finding.lost_cores,
        "blamed": None if finding.blamed is None else target_document(finding.blamed),
        "window": {
            "seconds": round(window.seconds, 6),
            "quotaMicroseconds": window.quota_us,
            "periodMicroseconds": window.period_us,
            "quotaChanged": window.quota_changed,
            "periods": window.periods,
            "throttledPeriods": window.throttled,
            "throttledNanoseconds": window.throttled_ns,
            "usageNanoseconds": window.usage_ns,
            "inheritedThrottledNanoseconds": window.inherited_ns,
            "burstMicroseconds": window.burst_us,
            "bursts": window.bursts,
            "waitingNanoseconds": window.waiting_ns,
            "stalledNanoseconds": window.stalled_ns,
        },
        "advice": [advice_document(advice) for advice in result.advice_for(finding)],
    }


def target_document(target: "CgroupTarget") -> dict[str, str]:
    """Return which cgroup; names that nobody told are ''."""
    return {
        "level": str(target.level),
        "node": target.node,
        "namespace": target.namespace,
        "pod": target.pod,
        "container": target.container,
        "podUid": target.pod_uid,
        "containerId": target.container_id,
        "path": target.path,
    }


def advice_document(advice: "Advice") -> dict[str, Any]:
    """Return one advice with its patches."""
    return {
        "id": str(advice.id),
        "title": advice.title,
        "evidence": advice.evidence,
        "reason": advice.reason,
        "risk": advice.risk or "",
        "patches": [
            {
                "kind": str(patch.kind),
                "about": patch.about,
                "command": patch.command or "",
                "jsonPatch": patch.json_patch or "",
                "mergeYaml": patch.merge_yaml or "",
                "cpuLimitMillicores": patch.cpu_limit_millis,
                "cpuRequestMillicores": patch.cpu_request_millis,
                "burstMicroseconds": patch.burst_us,
            }
            for patch in advice.patches
        ],
        "noPatch": advice.no_patch or "",
    }


def kernel_document(verdict: "KernelVerdict") -> dict[str, Any]:
    """Return what the table says of a kernel."""
    return {
        "release": verdict.release,
        "state": str(verdict.state),
        "bug": None if verdict.bug is None else str(verdict.bug),
        "why": verdict.why,
        "source": verdict.source or "",
        "confidence": None if verdict.confidence is None else str(verdict.confidence),
        "fixedIn": verdict.fixed_in or "",
        "ask": verdict.ask or "",
    }


def _node(result: AuditResult, name: str) -> dict[str, Any]:
    facts = result.windows.nodes[name]
    return {
        "name": name,
        "cpus": facts.cpus,
        "hierarchy": facts.hierarchy,
        "kernelRelease": facts.kernel_release,
        "kernelVersion": facts.kernel_version,
        "kernel": kernel_document(result.kernels[name]),
    }


def _severity(severity: Severity) -> str:
    return severity.name.lower()


def markdown(result: AuditResult, asked: Sequence[Finding], shown: Sequence[Finding]) -> str:
    """Return one look as markdown for an issue or a chat."""
    lines = [
        "### CPU throttling",
        "",
        f"{count_text(len(asked), 'cgroup')} in {span(result.windows.seconds)} until {result.at:%Y-%m-%d %H:%M:%S}Z: "
        + (", ".join(f"{number:,} {name}" for name, number in counts_by_verdict(tuple(asked)).items()) or "nothing"),
        "",
    ]
    if shown:
        pressure = has_pressure(shown)
        name, line = (" neighbours |", "---:|") if pressure else ("", "")
        lines += [
            f"| throttled | time lost |{name} stop | use/limit cores | level | who | verdict | advice |",
            f"|---:|---:|{line}---:|---:|---|---|---|---|",
            *(_row(result, finding, pressure=pressure) for finding in shown),
            "",
        ]
    for node, kernel in sorted(result.kernels.items()):
        name = f"{node}, " if node else ""
        lines.append(
            f"- kernel {_prose(name + (kernel.release or 'unknown'))}: {bugs(kernel)}. {_sentence(kernel.why)}"
        )
    lines += [
        f"- not read: {count:,} {trouble}, such as {_code(result.windows.examples.get(trouble, '-'))}"
        for trouble, count in sorted(result.windows.troubles.items())
        if count
    ]
    for bad in shown:
        if bad.severity >= Severity.WARN and result.advice_for(bad):
            lines += _advice(result, bad)
    single = [line for number, line in enumerate(lines) if line or not number or lines[number - 1]]
    return "\n".join(single).rstrip("\n") + "\n"


def _row(result: AuditResult, finding: Finding, *, pressure: bool) -> str:
    advice = result.advice_for(finding)
    cells = (
        percent(finding.throttled_ratio)
        if finding.window.state is WindowState.MEASURED
        else state(finding.window.state),
        percent(finding.lost_ratio),
        *([percent(finding.neighbours_ratio)] if pressure else []),
        milliseconds(finding.stop_seconds),
        use_of_limit(finding),
        str(finding.window.target.level),
        _code(target_name(finding.window.target, node=result.several_nodes)),
        f"**{verdict(finding)}**" if finding.severity is Severity.HIGH else verdict(finding),
        advice[0].id if advice else "-",
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    """Return a name as a code span: the fence is longer than any run of backticks in it."""
    shown = clean(text)
    fence = "`" * (_longest_run(shown) + 1)
    room = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{room}{shown}{room}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _prose(text: str) -> str:
    """Return words that may hold names of anybody's choice: no control characters, and no markup."""
    return _MARKUP.sub(r"\\\g<0>", clean(text))


def _sentence(text: str) -> str:
    """Return words with a capital and a full stop; a word such as `cpu.max` keeps its small letter."""
    told = _prose(text.strip())
    word = told.partition(" ")[0].rstrip(",:;")
    if word.isalpha() and word.islower():
        told = told[:1].upper() + told[1:]
    return told if not told or told[-1] in ".!?" else f"{told}."


def lines_of(patch: "Patch") -> Iterator[str]:
    """Yield the lines of a patch as people see it: the command, then the YAML; odd characters of names are escaped."""
    yield from _lines_of_command(patch)
    yield from _lines_of_yaml(patch)


def _lines_of_command(patch: "Patch") -> list[str]:
    return [clean(patch.command)] if patch.command else []


def _lines_of_yaml(patch: "Patch") -> list[str]:
    return [clean(line) for line in (patch.merge_yaml or "").splitlines()]


def _advice(result: AuditResult, finding: Finding) -> Iterator[str]:
    yield from ("", f"#### {_prose(target_name(finding.window.target, node=result.several_nodes))}", "")
    for number, advice in enumerate(result.advice_for(finding), 1):
        said = f"{_sentence(advice.evidence)} {_sentence(advice.reason)}"
        yield f"{number}. **{_prose(advice.title)}** ({advice.id}). {said}"
        if advice.risk:
            yield f"   Risk: {_prose(advice.risk)}."
        if advice.patch is None:
            yield f"   No patch: {_prose(advice.no_patch or '')}."
        else:
            yield from _fenced_blocks(advice.patch)


def _fenced_blocks(patch: "Patch") -> Iterator[str]:
    for language, lines in (("sh", _lines_of_command(patch)), ("yaml", _lines_of_yaml(patch))):
        if lines:
            fence = "`" * max(3, *(_longest_run(line) + 1 for line in lines))
            yield from ("", f"   {fence}{language}", *(f"   {line}" for line in lines), f"   {fence}")
    yield ""


def write_patches(folder: Path, result: AuditResult, asked: Iterable[Finding]) -> list[str]:
    """Write the raises of limits as strategic-merge YAML, one file a workload, and tell what was written and what not.

    The replicas of a workload have one template: where they want different limits, the highest is taken.

    Raises:
        UserError: when a file cannot be written.
    """
    from slack.process.atomic_write import write_atomically

    workloads: dict[tuple[str, ...], dict[str, Patch]] = {}
    without = 0
    for finding in asked:
        if finding.severity < Severity.WARN:
            continue
        found = [
            p
            for advice in result.advice_for(finding)
            for p in advice.patches
            if p.kind in _FOR_TEMPLATES and p.merge_yaml
        ]
        without += not found
        for patch in found[:1]:
            workload = workloads.setdefault(_object_of(patch), {})
            before = workload.get(patch.container)
            if before is None or (patch.cpu_limit_millis or 0) > (before.cpu_limit_millis or 0):
                workload[patch.container] = patch
    names = Counter(map(_file_stem, workloads))
    files = {_file_name(key, alone=names[_file_stem(key)] == 1): workload for key, workload in workloads.items()}
    for name, workload in files.items():
        try:
            write_atomically(folder / name, _merge_patches(list(workload.values())).encode())
        except OSError as error:
            raise UserError(f"--patches: {folder / name}: {(error.strerror or str(error)).lower()}") from None
    told = [f"{folder}: {count_text(len(files), 'patch file')} written" if files else f"{folder}: no patch to write"]
    if without:
        told.append(f"{count_text(without, 'finding')} without one: the advice says why (-o json)")
    return told


def _object_of(patch: "Patch") -> tuple[str, ...]:
    """Return kind, namespace and name of the patched object."""
    import yaml

    found = yaml.safe_load(patch.merge_yaml or "")
    metadata = found.get("metadata") or {}
    return found.get("kind", "patch"), metadata.get("namespace", ""), metadata.get("name", "")


def _file_name(key: tuple[str, ...], *, alone: bool) -> str:
    """Return a name from the patched object: deployment-shop-api.yaml.

    Where that is another object's too (shop/api-web and shop-api/web), a dot follows the namespace, which has none.
    """
    kind, namespace, name = key
    return f"{_file_stem(key if alone else (kind, f'{namespace}.{name}'))}.yaml"


def _file_stem(parts: Iterable[str]) -> str:
    return _UNSAFE.sub("_", "-".join(part.lower() for part in parts if part))


def _merge_patches(patches: "Sequence[Patch]") -> str:
    """Return one document for all containers of a workload."""
    import yaml

    if len(patches) == 1:
        return patches[0].merge_yaml or ""
    first, *rest = (yaml.safe_load(patch.merge_yaml or "") for patch in patches)
    for other in rest:
        _merge(first, other)
    return yaml.safe_dump(first, sort_keys=False, width=120, allow_unicode=True)


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif isinstance(value, list) and isinstance(into.get(key), list):
            into[key] += [item for item in value if item not in into[key]]
        else:
            into[key] = value
