"""What to change of limits: a container's, its burst, or that of a level above."""

from slack.audit.advice import patches
from slack.audit.advice.advice import HOGS, Advice, AdviceId, Case, evidence
from slack.audit.advice.patches import Patch
from slack.audit.advice.target_limit import Need, TargetLimit, need_of, target_limit
from slack.audit.findings.finding import Finding, Mark
from slack.audit.findings.sample import CgroupLevel
from slack.audit.kernel.quota_bugs import kernel_features
from slack.audit.sources.pods import AuditedPodFacts
from slack.cluster.quantity import format_cpu

RESIZE_NEEDS = "a resize of a pod needs Kubernetes 1.33 (feature gate InPlacePodVerticalScaling), else new pods"
STATIC_REFUSES = (
    "a kubelet whose CPU manager policy is static refuses to resize Guaranteed pods without the feature gate "
    "InPlacePodVerticalScalingExclusiveCPUs (alpha, off by default)"
)
"""pkg/kubelet/allocation/handlers.go."""


def raise_limit(case: Case) -> Advice | None:
    """Raise a container's limit: it uses nine tenths of it and more, or loses time at less and not in bursts."""
    finding = case.finding
    if case.above or case.marks & {Mark.BURSTY, Mark.BELOW_LIMIT} or not finding.limit_cores:
        return None
    target = _target(case, finding.limit_cores, need_of(finding), case.facts.p99_cores)
    at_limit = "uses all that it may"
    if Mark.AT_LIMIT not in case.marks:
        unknown = finding.use_cores is None
        at_limit = "is stopped by its limit" if unknown else "is stopped although its limit is not all used"
    return _raising(case, AdviceId.RAISE_LIMIT, f"it {at_limit} and waits for more", target.cpu_millis, target.why)


def _target(case: Case, limit_cores: float, need: Need, p99_cores: float | None) -> TargetLimit:
    pod = case.facts.pod
    most = pod.cpu_limit_millis if pod else None
    return target_limit(limit_cores, need, p99_cores=p99_cores, node=case.facts.node, pod_limit_millis=most)


def _raising(case: Case, advice: AdviceId, reason: str, cpu_millis: int | None, why: str) -> Advice:
    """A raise of the container's own limit, with the patch where one can be made."""
    pod, container = case.facts.pod, case.facts.container
    no_patch = case.unnamed or (None if container else "the container is not known")
    made: tuple[Patch, ...] = ()
    in_spec = container.cpu_limit_millis if container else None
    if cpu_millis is None:
        no_patch = why
    elif in_spec is not None and cpu_millis <= in_spec:
        no_patch = _not_in_force(f"the container's spec has {format_cpu(in_spec)}")
    elif pod and container and not no_patch:
        made = (patches.raise_limit(pod, container, cpu_millis),)
    to = f" to {format_cpu(cpu_millis)}" if cpu_millis is not None else ""
    risks = ["the node must have that much to spare, or its neighbours wait instead"]
    if any(patch.command for patch in made):
        risks.append(RESIZE_NEEDS)
    if pod and pod.qos_class == "Guaranteed":
        risks.append("Guaranteed: the request has to rise with it, so the scheduler must find the room")
        risks += _refused_if_static(pod, made)
    if container and container.resize_restarts:
        risks.append("its resizePolicy restarts the container for a new cpu limit")
    return Advice(
        advice,
        f"raise the CPU limit{to}",
        evidence(case.finding),
        f"{reason}: {why}",
        "; ".join(risks),
        made,
        no_patch,
    )


def allow_burst(case: Case) -> Advice | None:
    """Let a bursty container save credit, or give it the limit of its bursts' peak."""
    finding = case.finding
    window = finding.window
    bursty = Mark.BURSTY in case.marks or (Mark.BELOW_LIMIT in case.marks and case.kernel_is_good)
    if case.above or not bursty or not finding.limit_cores or not window.quota_us:
        return None
    peak_cores = _burst_peak_cores(finding)
    target = _target(case, finding.limit_cores, Need(peak_cores, "the peak of its bursts in this window"), None)
    raising = _raising(case, AdviceId.ALLOW_BURST, "", target.cpu_millis, "")
    node = case.facts.node
    feature = kernel_features(node.kernel_release).burst if node else None
    can = window.burst_us is not None or (feature is not None and feature.present is True)
    rests = (finding.use_of_limit_when_active or 0.0) < 0.9  # work longer than a period never saves any credit
    reason = "it needs little on average and much at once"
    if can and rests and not window.burst_us:
        credit = patches.burst(window.target, window.quota_us, node.hierarchy if node else "")
        return Advice(
            AdviceId.ALLOW_BURST,
            "let it save what it does not use: a burst credit of one quota",
            raising.evidence,
            f"{reason}: with cpu.max.burst = quota, quiet periods pay for busy ones (kernel 5.14 and later). The "
            "kubelet has no field for it, the node's agent can write it; or raise the limit to the burst's peak, "
            f"{peak_cores:.2f} cores",
            "a period may take up to twice the quota; write it again after each resize, and after each restart; a "
            "quota of the pod still stops it",
            (credit, *raising.patches),
        )
    instead = "this kernel has no burst" if not can else "its bursts outlast any credit that it could save"
    if can and window.burst_us:
        instead = "its burst credit is not enough"
    return Advice(
        AdviceId.ALLOW_BURST,
        raising.title,
        raising.evidence,
        f"{reason}, and {instead}: a limit of the burst's peak, {peak_cores:.2f} cores, would not stop it",
        raising.risk,
        raising.patches,
        raising.no_patch or (None if raising.patches else target.why),
    )


def _burst_peak_cores(finding: Finding) -> float:
    """Return what the peak of its bursts takes of CPU in one period: a burst's CPU time, at most all busy CPUs'."""
    window = finding.window
    busy = finding.busy_cpus or 1.0
    if window.usage_ns is None or window.throttled <= 0:
        return busy
    return min(busy, max(window.usage_ns / window.throttled / (window.period_us * 1000), finding.limit_cores or 0.0))


def requests_only(case: Case) -> Advice | None:
    """Take the limit out of the template of a pod that asks for latency."""
    pod, container = case.facts.pod, case.facts.container
    if pod is None or not pod.latency_class or case.level is not CgroupLevel.CONTAINER:
        return None
    patch = patches.remove_limit(pod, container) if container and container.cpu_limit_millis is not None else None
    no_patch = None
    if patch is None:
        no_patch = patches.no_template(pod) or "the container has no limit of its own: the pod's would have to go"
    return Advice(
        AdviceId.REQUESTS_ONLY,
        "take the CPU limit out of the template and keep the request",
        evidence(case.finding),
        "the pod asks for latency: its request guarantees its share of a busy node, and a limit can only make it wait. "
        "Limits cannot be removed by a resize, so new pods are needed",
        f"{HOGS}; a Guaranteed pod becomes Burstable and loses exclusive CPUs (kubernetes/kubernetes#67577); a JVM "
        "then sees all CPUs of the node (JDK-8281181)",
        (patch,) if patch else (),
        no_patch,
    )


def pod_limit(case: Case) -> Advice | None:
    """Name the limit that stops it, where that is not the container's own."""
    finding, pod = case.finding, case.facts.pod
    if not case.above:
        return None
    blamed = finding.blamed
    if case.has_the_pods_limit and pod is not None and pod.cpu_limit_millis is not None:
        return _raise_pod(case, pod, pod.cpu_limit_millis)
    if blamed is None:
        return _no_limit_to_change(case, "a level above, which was not seen", "whose quota it is was not seen")
    if blamed.level is not CgroupLevel.POD:
        where = f"cgroup {blamed.path}"
        return _no_limit_to_change(
            case, where, f"no object of Kubernetes sets the quota of {where}: find out what does"
        )
    if pod is None:
        return _no_limit_to_change(case, f"the pod ({blamed.path})", "the pod's name and spec are not known")
    if pod.cpu_limit_millis is not None:
        return _raise_pod(case, pod, pod.cpu_limit_millis)
    return _raise_sum(case, pod)


def _no_limit_to_change(case: Case, whose: str, no_patch: str) -> Advice:
    reason = f"the quota that stops it is that of {whose}: the container's own limit changes nothing"
    return Advice(
        AdviceId.POD_LIMIT, f"look at the quota of {whose}", evidence(case.finding), reason, None, no_patch=no_patch
    )


def _raise_pod(case: Case, pod: AuditedPodFacts, limit_millis: int) -> Advice:
    """Raise the pod's own limit, computed with the quota that was measured, not with the one in the spec."""
    finding, overhead = case.finding, pod.overhead_millis
    in_force_cores = _in_force_cores(finding) or (limit_millis + overhead) / 1000
    if case.level is CgroupLevel.POD:
        need = need_of(finding)
        target = target_limit(in_force_cores, need, p99_cores=case.facts.p99_cores, node=case.facts.node)
    else:  # what the pod's other containers need is not in this finding
        words = "the pod's quota in force and what this container lost in one window"
        need = Need(in_force_cores + (finding.lost_cores or 0.0), words)
        target = target_limit(in_force_cores, need, node=case.facts.node)
    to_millis = None if target.cpu_millis is None else target.cpu_millis - overhead
    less = f"; less {format_cpu(overhead)} of its RuntimeClass, which the quota has in addition" if overhead else ""
    why = target.why + less
    no_patch = target.why if to_millis is None else case.unnamed
    if to_millis is not None and to_millis <= limit_millis:
        no_patch = _not_in_force(f"the pod's spec has {format_cpu(limit_millis)}")
    made = (patches.raise_pod_limit(pod, to_millis),) if to_millis is not None and not no_patch else ()
    to = f" to {format_cpu(to_millis)}" if made and to_millis is not None else ""
    risks = [
        "the node must have that much to spare; a resize of a pod's own limits needs Kubernetes 1.36 (feature gate "
        "InPlacePodLevelResourcesVerticalScaling), else new pods",
        *_refused_if_static(pod, made),
    ]
    return Advice(
        AdviceId.POD_LIMIT,
        f"raise the pod's own CPU limit (spec.resources.limits.cpu, now {format_cpu(limit_millis)}){to}",
        evidence(finding),
        f"the pod's limit stops all its containers together, whatever theirs are: {why}",
        "; ".join(risks),
        made,
        no_patch,
    )


def _refused_if_static(pod: AuditedPodFacts, made: tuple[Patch, ...]) -> list[str]:
    """Return the risk of a resize of a Guaranteed pod, as a list; nothing if no resize is advised."""
    is_resize = any(patch.command for patch in made)
    return [STATIC_REFUSES] if is_resize and pod.qos_class == "Guaranteed" else []


def _in_force_cores(finding: Finding) -> float | None:
    """Return the quota that stops it as it was measured: the spec may be newer, and knows no overhead."""
    return finding.blamed_cores or finding.limit_cores


def _not_in_force(spec: str) -> str:
    return (
        f"{spec}, which is enough, and a lower quota is in force: see why the kubelet has not applied it (a resize "
        "that is pending, or an older pod)"
    )


def _raise_sum(case: Case, pod: AuditedPodFacts) -> Advice:
    """Raise the container's part of a quota that is the sum of its pod's limits and its RuntimeClass' overhead."""
    limited = [
        container
        for container in pod.containers
        if container.cpu_limit_millis is not None and (not container.init or container.sidecar)
    ]
    container = case.facts.container or (limited[0] if len(limited) == 1 else None)
    total_millis = sum(container.cpu_limit_millis or 0 for container in limited)
    made: tuple[Patch, ...] = ()
    no_patch: str | None = "which of its containers should have more is not seen from the pod's counters"
    why = ""
    if container is not None and container.cpu_limit_millis:
        limit_cores = container.cpu_limit_millis / 1000
        in_force_cores = _in_force_cores(case.finding) or (total_millis + pod.overhead_millis) / 1000
        others_cores = (total_millis + pod.overhead_millis) / 1000 - limit_cores
        words = "the pod's quota in force and what was lost in one window, less what is not this container's"
        need = Need(in_force_cores + (case.finding.lost_cores or 0.0) - others_cores, words)
        target = _target(case, limit_cores, need, None)
        why = f"; of {container.name}: {target.why}"
        no_patch = target.why if target.cpu_millis is None else case.unnamed
        if need.cores <= limit_cores:
            no_patch = _not_in_force(f"the containers' limits come to {format_cpu(total_millis)}")
        if target.cpu_millis is not None and not no_patch:
            made = (patches.raise_limit(pod, container, target.cpu_millis),)
    total = f", {format_cpu(total_millis)}" if total_millis else ""
    overhead = f" and {format_cpu(pod.overhead_millis)} of its RuntimeClass" if pod.overhead_millis else ""
    return Advice(
        AdviceId.POD_LIMIT,
        f"raise the limits of the containers of pod {pod.namespace}/{pod.name}: the pod's quota is their sum"
        f"{total}{overhead}",
        evidence(case.finding),
        "the pod as a whole is stopped, by the quota that the kubelet sets for it when all its containers have limits"
        + why,
        "the node must have that much to spare, or its neighbours wait instead"
        + (f"; {RESIZE_NEEDS}" if any(patch.command for patch in made) else "")
        + "".join(f"; {risk}" for risk in _refused_if_static(pod, made)),
        made,
        no_patch,
    )
