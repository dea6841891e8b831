"""What to change on nodes: their kernel, the period of quotas, the CPU manager."""

from slack.audit.advice import patches
from slack.audit.advice.advice import HOGS, Advice, AdviceId, Case, evidence
from slack.audit.findings.finding import Mark
from slack.audit.findings.sample import CgroupLevel
from slack.audit.kernel.quota_bugs import Bug, KernelState
from slack.cluster.quantity import format_cpu

LONG_PERIOD_US = 50_000
SHORT_PERIOD_MS = 10


def fixed_kernel(case: Case) -> Advice | None:
    """Upgrade a kernel with the quota's bug, or find out whether it has it."""
    kernel = case.kernel
    if kernel is None or kernel.state is KernelState.UNKNOWN:
        return _check_kernel(case)
    if kernel.state is not KernelState.AFFECTED:
        return None
    if kernel.bug is Bug.CLOCK_DRIFT:
        why = "the clocks of the quota's periods drift apart between CPUs, so periods are lost or come too early"
    else:
        why = (
            "quota that one CPU holds and does not use expires, so cgroups are stopped with quota left (CVE-2019-19922)"
        )
    good = f" to {kernel.fixed_in} or later" if kernel.fixed_in else " to another series that has the fix"
    pod, container = case.facts.pod, case.facts.container
    removal = patches.remove_limit(pod, container) if pod and container and not case.above else None
    return Advice(
        AdviceId.UPGRADE_KERNEL,
        f"upgrade the kernel {kernel.release}{good}; until then do without the quota",
        f"{evidence(case.finding)}; kernel {kernel.release}: {kernel.why} ({kernel.source}; "
        f"{kernel.confidence} confidence)",
        f"{why}. Until nodes have a fixed kernel, set cpuCFSQuota: false on their pool, or take the limits out of the "
        "templates of this namespace",
        f"{HOGS}; put limits back after the upgrade",
        (patches.quota_off(), *((removal,) if removal else ())),
    )


def _check_kernel(case: Case) -> Advice | None:
    if Mark.BELOW_LIMIT not in case.marks:
        return None
    asked = case.kernel.ask if case.kernel else "uname -r and uname -v of the node"
    return Advice(
        AdviceId.CHECK_KERNEL,
        "find out whether the kernel has the quota bug",
        evidence(case.finding),
        "it is throttled in more periods than its CPU time could have filled, which is what the kernel's slice expiry "
        f"(CVE-2019-19922) looks like. To decide: {asked}; or the live probe on a node with many CPUs",
        None,
        no_patch="whether there is anything to change is what has to be found out",
    )


def shorter_period(case: Case) -> Advice | None:
    """Shorten the stops, as the last resort: not where there is still the limit of a level above to look at."""
    if case.above or case.level is CgroupLevel.OTHER:
        return None
    if Mark.STOPS not in case.marks or case.finding.window.period_us < LONG_PERIOD_US:
        return None
    return Advice(
        AdviceId.SHORTER_PERIOD,
        f"as the last resort, a period of {SHORT_PERIOD_MS} ms instead of {case.finding.window.period_us / 1000:g} ms",
        evidence(case.finding),
        "the same share of time is lost in more and shorter stops, which health checks and connections survive "
        f"(cpuCFSQuotaPeriod, 5 to 20 ms). It needs the kubelet's feature gate {patches.PERIOD_GATE}, which is on by "
        "default from Kubernetes 1.36; without the gate an older kubelet does not start, so the drop-in names it",
        "it is set for all pods of a node; more throttle events, and timers cost more; throughput does not rise",
        (patches.shorter_period(SHORT_PERIOD_MS),),
    )


def exclusive_cpus(case: Case) -> Advice | None:
    """Tell that a container with CPUs of its own needs no quota."""
    pod, container = case.facts.pod, case.facts.container
    if pod is None or pod.qos_class != "Guaranteed" or case.facts.static_cpu_manager is False:
        return None
    if container is None or not container.cpu_limit_millis or container.cpu_limit_millis % 1000:
        return None
    has = "the node's CPU manager is static" if case.facts.static_cpu_manager else "if the node's CPU manager is static"
    return Advice(
        AdviceId.EXCLUSIVE_CPUS,
        "upgrade the kubelet to 1.33 or later: containers with exclusive CPUs then have no quota",
        f"{evidence(case.finding)}; Guaranteed, {format_cpu(container.cpu_limit_millis)} whole CPUs",
        f"{has}, this container has CPUs of its own, and a quota can only stop it there; kubelets from 1.33 on set "
        "none (DisableCPUQuotaWithExclusiveCPUs)",
        None,
        no_patch="a new kubelet, or its static CPU manager, is no object to patch",
    )
