"""Samples and windows for tests, in the units in which people speak of quotas."""

from msgspec.structs import replace as changed

from slack.audit.findings.finding import Finding
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import Window, compare
from slack.audit.sources.pod_objects import AuditedPod, decode_pods
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts, facts_of_pod

MS_NS = 1_000_000
UID = "4c1f0a3e-7d52-4b6e-9a51-0f2d9c3b7e10"
POD_PATH = f"/kubepods/burstable/pod{UID}"
POD = CgroupTarget(CgroupLevel.POD, POD_PATH, pod_uid=UID)
API = CgroupTarget(CgroupLevel.CONTAINER, f"{POD_PATH}/{'3a' * 32}", pod_uid=UID, container_id="3a" * 32)
SIDECAR = CgroupTarget(CgroupLevel.CONTAINER, f"{POD_PATH}/{'5b' * 32}", pod_uid=UID, container_id="5b" * 32)


def sample(
    target: CgroupTarget = API,
    at: float = 0.0,
    *,
    quota_ms: float | None = 200,
    period_ms: float = 100,
    periods: int = 0,
    throttled: int = 0,
    throttled_ms: float = 0,
    usage_ms: float | None = 0,
    inherited_ms: float | None = None,
    burst_ms: float | None = None,
    waiting_ms: float | None = None,
    stalled_ms: float | None = None,
) -> Sample:
    return Sample(
        target=target,
        at_seconds=at,
        quota_us=None if quota_ms is None else round(quota_ms * 1000),
        period_us=round(period_ms * 1000),
        periods=periods,
        throttled=throttled,
        throttled_ns=round(throttled_ms * MS_NS),
        usage_ns=None if usage_ms is None else round(usage_ms * MS_NS),
        inherited_ns=None if inherited_ms is None else round(inherited_ms * MS_NS),
        burst_us=None if burst_ms is None else round(burst_ms * 1000),
        waiting_ns=None if waiting_ms is None else round(waiting_ms * MS_NS),
        stalled_ns=None if stalled_ms is None else round(stalled_ms * MS_NS),
    )


def sampled(*samples: Sample, cpus: int | None = 2, release: str = "", node: str = "") -> Sampled:
    return Sampled(samples, {node: CgroupNodeFacts(cpus, release)})


def zero(of: Sample) -> Sample:
    """What the sample was at second 0, with nothing counted yet."""
    return changed(
        of,
        at_seconds=0.0,
        periods=0,
        throttled=0,
        throttled_ns=0,
        usage_ns=None if of.usage_ns is None else 0,
        inherited_ns=None if of.inherited_ns is None else 0,
        waiting_ns=None if of.waiting_ns is None else 0,
        stalled_ns=None if of.stalled_ns is None else 0,
    )


def present(text: str | None) -> str:
    """What is there."""
    assert text is not None
    return text


def windows_of(*after: Sample, least_periods: int = 1) -> tuple[Window, ...]:
    before = sampled(*(zero(sample) for sample in after))
    return compare(before, sampled(*after), least_periods=least_periods).windows


def judged(*after: Sample, cpus: int | None = 2, node: str = "") -> dict[str, Finding]:
    """Findings by path, of windows that begin with zeros at second 0."""
    return {finding.window.target.path: finding for finding in judge(windows_of(*after), {node: CgroupNodeFacts(cpus)})}


def throttled_for(stop_ms: float, quota_ms: float, period_ms: float, throttled: int) -> float:
    """Return throttled_time in ms for a mean stop: n CPUs that run P - Q / n each use Q, so n = Q / (P - stop)."""
    return throttled * stop_ms * quota_ms / (period_ms - stop_ms)


PODS_JSON = b"""{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{
  "metadata": {"name": "api-6d4b75cb6d-x2x7p", "namespace": "shop", "uid": "4c1f0a3e-7d52-4b6e-9a51-0f2d9c3b7e10",
    "creationTimestamp": "2026-11-21T08:00:00Z",
    "labels": {"app": "api", "pod-template-hash": "6d4b75cb6d"},
    "annotations": {"kubernetes.io/config.source": "api", "audit.resource-slack.io/latency": "true"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-6d4b75cb6d", "uid": "77",
      "controller": true, "blockOwnerDeletion": true}]},
  "spec": {"nodeName": "node-1", "containers": [
      {"name": "api", "image": "registry.example/shop/api:1.4", "command": ["/usr/bin/java"], "args": ["-jar", "a.jar"],
       "resources": {"limits": {"cpu": "400m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}},
       "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
      {"name": "log", "image": "busybox", "resources": {}}],
    "initContainers": [{"name": "mesh", "image": "mesh:2", "restartPolicy": "Always",
       "resources": {"limits": {"cpu": "0.5"}},
       "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
      {"name": "migrate", "image": "migrate:1", "resources": {}}]},
  "status": {"phase": "Running", "qosClass": "Burstable", "podIP": "10.0.0.7",
    "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}],
    "containerStatuses": [
      {"name": "api", "containerID": "containerd://3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a",
       "ready": true, "restartCount": 0, "state": {"running": {}}},
      {"name": "log", "ready": false, "state": {"waiting": {}}}],
    "initContainerStatuses": [
      {"name": "mesh", "containerID": "cri-o://5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b",
       "ready": true}]}
}]}"""


def a_pod() -> AuditedPod:
    """The pod of PODS_JSON, decoded anew."""
    return decode_pods(PODS_JSON)[0]


def pod_facts(
    *,
    owner: tuple[str, str] = ("Deployment", "api"),
    qos: str = "Burstable",
    pod_limit: int | None = None,
    limit: int | None = 400,
    request: int | None = 100,
    image: str = "registry.example/shop/api:1.4",
    latency: bool = False,
    static: bool = False,
    resize_restarts: bool = False,
) -> AuditedPodFacts:
    facts = facts_of_pod(a_pod())
    api = AuditedContainerFacts("api", image, (), limit, request, 0, False, False, resize_restarts)
    return AuditedPodFacts(
        facts.uid,
        facts.cgroup_uid,
        "shop",
        "api-6d4b75cb6d-x2x7p",
        "node-1",
        owner[0],
        owner[1],
        qos,
        latency,
        static,
        False,
        pod_limit,
        None,
        (api,),
        ("3a" * 32,),
    )
