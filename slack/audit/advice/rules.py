"""What to do about a finding: each advice with its figures, its reason, its risk, and a ready patch.

In the order in which things should be tried. Harmless findings (many periods, hardly any time), windows with too little
data and windows that mix two limits get none. Nothing here removes a limit from a running pod.
"""

import math
from collections.abc import Callable

from slack.audit.advice import patches
from slack.audit.advice.advice import Advice, AdviceId, Case, Facts, evidence
from slack.audit.advice.limits import allow_burst, pod_limit, raise_limit, requests_only
from slack.audit.advice.nodes import exclusive_cpus, fixed_kernel, shorter_period
from slack.audit.advice.runtimes import ANY_RUNTIME, GO_VARIABLE, Runtime, go_does_it, runtime_of
from slack.audit.findings.finding import Finding, Mark, Severity
from slack.audit.findings.sample import CgroupLevel
from slack.audit.kernel.quota_bugs import kernel_verdict

__all__ = ["Advice", "AdviceId", "Facts", "advise", "evidence"]


def advise(finding: Finding, facts: Facts | None = None) -> tuple[Advice, ...]:
    """Return what to do, in the order in which it should be tried; empty where nothing should be done."""
    if finding.severity < Severity.WARN or Mark.BOUNDARY in finding.marks or finding.window.quota_changed:
        return ()
    known = facts or Facts()
    node = known.node
    kernel = kernel_verdict(node.kernel_release, node.kernel_version) if node and node.kernel_release else None
    case = Case(finding, known, kernel)
    return tuple(advice for rule in _RULES if (advice := rule(case)) is not None)


def match_threads(case: Case) -> Advice | None:
    """Let it run as many threads as its limit has CPUs."""
    if Mark.MANY_THREADS not in case.marks or case.level not in (CgroupLevel.CONTAINER, CgroupLevel.OTHER):
        return None
    finding, container = case.finding, case.facts.container
    # the quota that stops it, as it was measured: that of a pod may be the sum of its containers' limits
    limit_cores = finding.blamed_cores or finding.limit_cores
    if limit_cores is None:
        return None
    threads = max(1, math.ceil(limit_cores))
    runtime = runtime_of(container)
    hint = (runtime.hint if runtime else ANY_RUNTIME).format(threads=threads)
    patch, no_patch = None, None
    own = Mark.INHERITED not in case.marks
    if runtime and runtime.variable == GO_VARIABLE and own and (why := go_does_it(container, threads)):
        hint, no_patch = why, "its Go takes its number of threads from this limit by itself"
    elif runtime and own and runtime.sees_its_limit:
        hint, no_patch = (
            runtime.sees_its_limit,
            f"the {runtime.name} takes its number of threads from this limit itself",
        )
    elif runtime is None or not runtime.variable:
        no_patch = "what sets it depends on the program"
    else:
        if case.facts.pod and container and not runtime.is_list:
            value = runtime.value.format(threads=threads)
            patch = patches.environment(case.facts.pod, container, runtime.variable, value)
        if patch is None:
            no_template = patches.no_template(case.facts.pod) if case.facts.pod else case.unnamed
            no_patch = no_template or patches.no_variable(container, runtime.variable) or _no_list(runtime)
    return Advice(
        AdviceId.MATCH_THREADS,
        f"let it run {threads} thread{'s' if threads > 1 else ''} at once" + (f" ({runtime.name})" if runtime else ""),
        f"{evidence(finding)}; about {finding.busy_cpus or 0:.1f} CPUs busy when the quota ran out",
        f"more busy threads than the limit has CPUs use the quota up early in the period and all stop for the "
        f"rest: {hint}",
        "fewer threads finish less at once where CPU is not what they wait for"
        + (f"; an image that sets {runtime.variable} itself loses that value" if patch and runtime else ""),
        (patch,) if patch else (),
        no_patch,
    )


def _no_list(runtime: Runtime) -> str:
    return (
        f"the image may set {runtime.variable} itself, with options that a new value would remove: add "
        f"{runtime.hint.partition('=')[0]} to what it has"
    )


_RULES: tuple[Callable[[Case], Advice | None], ...] = (
    fixed_kernel,
    raise_limit,
    allow_burst,
    match_threads,
    requests_only,
    shorter_period,
    exclusive_cpus,
    pod_limit,
)
