"""An audit for machines and for chats: the JSON document, markdown, and patch files for a repository.

The document is a contract: keys are added, never renamed; units are in the names, and what is not known is null.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slack.cfs.finding import Finding, Severity
from slack.cfs.patches import PatchKind
from slack.cfs.window import State
from slack.cli.audit_look import Look, states
from slack.cli.audit_words import bugs, clean, counted, milliseconds, percent, span, state, use_of_limit, verdict, who
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cfs.advise import Advice
    from slack.cfs.kernel import KernelVerdict
    from slack.cfs.patches import Patch
    from slack.cfs.sample import Target

SCHEMA = "resource-slack.io/audit/v1"
_FOR_TEMPLATES = (PatchKind.RAISE_LIMIT, PatchKind.RAISE_POD_LIMIT)
"""What one can commit without thinking about each workload; the others are choices and stand in the advice."""
_BACKTICKS = re.compile("`+")
_MARKUP = re.compile(r"[\\`*<\[]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def document(look: Look, asked: Sequence[Finding], shown: Sequence[Finding]) -> dict[str, Any]:
    """Return one look for machines. `findings` are those that the table would show, the worst first."""
    return {
        "schema": SCHEMA,
        "source": str(look.kind),
        "at": f"{look.at:%Y-%m-%dT%H:%M:%SZ}",
        "windowSeconds": round(look.windows.seconds, 3),
        "nodes": [_node(look, name) for name in sorted(look.windows.nodes)],
        "summary": {
            "cgroups": len(asked),
            "states": states(tuple(asked)),
            "worst": _severity(max((one.severity for one in asked), default=Severity.NONE)),
        },
        "troubles": [
            {"trouble": str(trouble), "count": count, "example": look.windows.examples.get(trouble, "")}
            for trouble, count in sorted(look.windows.troubles.items())
            if count
        ],
        "findings": [finding_document(look, one) for one in shown],
    }


def finding_document(look: Look, one: Finding) -> dict[str, Any]:
    """Return one finding with its window and advice for machines."""
    window = one.window
    return {
        **target_document(window.target),
        "state": str(window.state),
        "severity": _severity(one.severity),
        "marks": sorted(str(mark) for mark in one.marks),
        "throttledRatio": one.throttled_ratio,
        "timeLostRatio": one.lost_ratio,
        "stopSeconds": one.stop_seconds,
        "busyCpus": one.busy_cpus,
        "useCores": one.use_cores,
        "limitCores": one.limit_cores,
        "lostCores": one.lost_cores,
        "blamed": None if one.blamed is None else target_document(one.blamed),
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
        },
        "advice": [advice_document(advice) for advice in look.of(one)],
    }


def target_document(target: "Target") -> dict[str, str]:
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
        "risk": advice.risk,
        "patches": [
            {
                "kind": str(patch.kind),
                "about": patch.about,
                "command": patch.command,
                "jsonPatch": patch.json_patch,
                "mergeYaml": patch.merge_yaml,
                "cpuLimitMillicores": patch.cpu_limit_millis,
                "cpuRequestMillicores": patch.cpu_request_millis,
                "burstMicroseconds": patch.burst_us,
            }
            for patch in advice.patches
        ],
        "noPatch": advice.no_patch,
    }


def kernel_document(one: "KernelVerdict") -> dict[str, Any]:
    """Return what the table says of a kernel."""
    return {
        "release": one.release,
        "state": str(one.state),
        "bug": None if one.bug is None else str(one.bug),
        "why": one.why,
        "source": one.source,
        "confidence": None if one.confidence is None else str(one.confidence),
        "fixedIn": one.fixed_in,
        "ask": one.ask,
    }


def _node(look: Look, name: str) -> dict[str, Any]:
    facts = look.windows.nodes[name]
    return {
        "name": name,
        "cpus": facts.cpus,
        "hierarchy": facts.hierarchy,
        "kernelRelease": facts.kernel_release,
        "kernelVersion": facts.kernel_version,
        "kernel": kernel_document(look.kernels[name]),
    }


def _severity(severity: Severity) -> str:
    return severity.name.lower()


def markdown(look: Look, asked: Sequence[Finding], shown: Sequence[Finding]) -> str:
    """Return one look as markdown for an issue or a chat."""
    lines = [
        "### CPU throttling",
        "",
        f"{counted(len(asked), 'cgroup')} in {span(look.windows.seconds)} until {look.at:%Y-%m-%d %H:%M:%S}Z: "
        + (", ".join(f"{number:,} {name}" for name, number in states(tuple(asked)).items()) or "nothing"),
        "",
    ]
    if shown:
        lines += [
            "| throttled | time lost | stop | use/limit cores | level | who | verdict | advice |",
            "|---:|---:|---:|---:|---|---|---|---|",
            *(_row(look, one) for one in shown),
            "",
        ]
    for node, one in sorted(look.kernels.items()):
        name = f"{node}, " if node else ""
        lines.append(f"- kernel {_prose(name + (one.release or 'unknown'))}: {bugs(one)}. {_sentence(one.why)}")
    lines += [
        f"- not read: {count:,} {trouble}, such as {_code(look.windows.examples.get(trouble, '-'))}"
        for trouble, count in sorted(look.windows.troubles.items())
        if count
    ]
    for bad in shown:
        if bad.severity >= Severity.WARN and look.of(bad):
            lines += _advice(look, bad)
    single = [line for number, line in enumerate(lines) if line or not number or lines[number - 1]]
    return "\n".join(single).rstrip("\n") + "\n"


def _row(look: Look, one: Finding) -> str:
    advice = look.of(one)
    cells = (
        percent(one.throttled_ratio) if one.window.state is State.MEASURED else state(one.window.state),
        percent(one.lost_ratio),
        milliseconds(one.stop_seconds),
        use_of_limit(one),
        str(one.window.target.level),
        _code(who(one.window.target, node=look.several_nodes)),
        f"**{verdict(one)}**" if one.severity is Severity.HIGH else verdict(one),
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
    return [clean(line) for line in patch.merge_yaml.splitlines()]


def _advice(look: Look, one: Finding) -> Iterator[str]:
    yield from ("", f"#### {_prose(who(one.window.target, node=look.several_nodes))}", "")
    for number, advice in enumerate(look.of(one), 1):
        said = f"{_sentence(advice.evidence)} {_sentence(advice.reason)}"
        yield f"{number}. **{_prose(advice.title)}** ({advice.id}). {said}"
        if advice.risk:
            yield f"   Risk: {_prose(advice.risk)}."
        if advice.patch is None:
            yield f"   No patch: {_prose(advice.no_patch)}."
        else:
            yield from _fenced(advice.patch)


def _fenced(patch: "Patch") -> Iterator[str]:
    for language, lines in (("sh", _lines_of_command(patch)), ("yaml", _lines_of_yaml(patch))):
        if lines:
            fence = "`" * max(3, *(_longest_run(line) + 1 for line in lines))
            yield from ("", f"   {fence}{language}", *(f"   {line}" for line in lines), f"   {fence}")
    yield ""


def write_patches(folder: Path, look: Look, asked: Iterable[Finding]) -> list[str]:
    """Write the raises of limits as strategic-merge YAML, one file a workload, and tell what was written and what not.

    The replicas of a workload have one template: where they want different limits, the highest is taken.

    Raises:
        UserError: when a file cannot be written.
    """
    from slack.process.whole_file import write_whole

    files: dict[str, dict[str, Patch]] = {}
    without = 0
    for one in asked:
        if one.severity < Severity.WARN:
            continue
        found = [p for advice in look.of(one) for p in advice.patches if p.kind in _FOR_TEMPLATES and p.merge_yaml]
        without += not found
        for patch in found[:1]:
            workload = files.setdefault(_file_name(patch), {})
            before = workload.get(patch.container)
            if before is None or (patch.cpu_limit_millis or 0) > (before.cpu_limit_millis or 0):
                workload[patch.container] = patch
    for name, workload in files.items():
        try:
            write_whole(folder / name, _merged(list(workload.values())).encode())
        except OSError as error:
            raise UserError(f"--patches: {folder / name}: {(error.strerror or str(error)).lower()}") from None
    told = [f"{folder}: {counted(len(files), 'patch file')} written" if files else f"{folder}: no patch to write"]
    if without:
        told.append(f"{counted(without, 'finding')} without one: the advice says why (-o json)")
    return told


def _file_name(patch: "Patch") -> str:
    """Return a name from the patched object: deployment-shop-api.yaml."""
    import yaml

    found = yaml.safe_load(patch.merge_yaml)
    metadata = found.get("metadata") or {}
    parts = (found.get("kind", "patch"), metadata.get("namespace", ""), metadata.get("name", ""))
    return _UNSAFE.sub("_", "-".join(str(part).lower() for part in parts if part)) + ".yaml"


def _merged(patches: "Sequence[Patch]") -> str:
    """Return one document for all containers of a workload."""
    import yaml

    if len(patches) == 1:
        return patches[0].merge_yaml
    first, *rest = (yaml.safe_load(one.merge_yaml) for one in patches)
    for other in rest:
        _merge(first, other)
    return yaml.safe_dump(first, sort_keys=False, width=120, allow_unicode=True)


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif isinstance(value, list) and isinstance(into.get(key), list):
            into[key] += [one for one in value if one not in into[key]]
        else:
            into[key] = value
