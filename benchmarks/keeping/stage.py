"""A control plane with a real autoscaler, the chart installed by Helm, and an operator as the chart starts it."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.keeping.installation import Installation, InstallationClock
from benchmarks.keeping.load import LARGE, LARGE_PODS, SMALL_PODS, Waits, deployments, play, waits_of
from benchmarks.report import say
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import InstanceType, Karpenter
from e2e.harness.cluster import audit_log
from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError
from e2e.harness.objects import deployment, is_running, nodes, pods, scale, wait_for_running, wait_until
from e2e.harness.product import burst_log
from e2e.harness.product.helm import CHART, NAMESPACE, RELEASE, Helm
from e2e.harness.product.operator import Operator, placeholders, wait_until_placed
from e2e.harness.product.uninstall_hook import arguments

BOOT_SECONDS = 10
SPEC: Mapping[str, object] = {
    "extraCapacity": {"minRate": 0, "floor": {"cpu": "9600m", "memory": "38400Mi"}},
    "cover": {"mode": "None"},
    "granularity": 5,
}
"""Six placeholders, a fifth of a node each: each holds a large pod. The amount is fixed, so that a change of it is not
taken for churn."""
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack"
STATUS_WRITES = ("resource-slack.io/slackpolicies/status", "pods/status")
LEASES = "coordination.k8s.io/leases"
_EIGHT_CORES = InstanceType("e2e-8x-amd64-linux", "8100m", "32778Mi", 0.4)  # 8 CPU and 32 GiB are left for pods


class Autoscaler(StrEnum):
    """Which one."""

    CLUSTER_AUTOSCALER = "Cluster Autoscaler"
    KARPENTER = "Karpenter"


class Form(StrEnum):
    """`spec.hold`."""

    BOUND = "Bound"
    UNBOUND = "Unbound"


@dataclass(frozen=True, slots=True)
class Kept:
    """What was seen of one form beside one autoscaler."""

    node_seconds: float
    """From the creation of a real pod that fits nowhere to its binding: the autoscaler's own time."""
    installation: Installation
    """From `helm install` to all capacity reserved."""
    refill_seconds: float
    """From the creation of a burst to all capacity reserved again."""
    refill_writes: dict[str, int]
    """The operator's in that time, by verb and resource, but for its lease."""
    small: Waits
    large: Waits
    nodes: float
    """The mean while the load moved."""
    preempted: int
    created: int
    """Placeholders that were created while the load moved."""
    deleted: int
    writes: dict[str, int]
    """The operator's while the load moved, but for its lease."""

    @property
    def recreated(self) -> int:
        """Placeholders that were deleted and created again: what the amount grows by is neither."""
        return min(self.created, self.deleted)


def measure(folder: Path, autoscaler: Autoscaler, form: Form, seconds: float, seed: int) -> Kept:
    """Install the chart beside an autoscaler, and look at everything."""
    options = Options(scheduler_gates={}, audit_rules=[burst_log.RULE])
    with ControlPlane(folder, options) as cluster, _autoscaler(cluster, autoscaler):
        api = cluster.api
        for manifest in deployments():
            api.create(manifest)
        wait_for_running(api, SMALL_PODS, 180)
        node_seconds = _node_start(cluster)
        say(f"{autoscaler}, {form}: a node takes {node_seconds:.1f} s")
        with _installed(cluster, form) as (operator, installation):
            say(f"{autoscaler}, {form}: {installation}")
            _burst(cluster)  # the first one teaches the operator which pods come together
            refill_seconds, refill_writes = _refill(cluster, operator)
            say(f"{autoscaler}, {form}: refilled {refill_seconds:.1f} s after a burst, writes {refill_writes}")
            mark = cluster.audit_mark()
            mean = play(api, seconds, seed)
            wait_until_placed(api, "default", 180)
            entries = cluster.audit_entries(since=mark)
        seen = burst_log.read(entries)
        return Kept(
            node_seconds=node_seconds,
            installation=installation,
            refill_seconds=refill_seconds,
            refill_writes=refill_writes,
            small=waits_of(entries, "small"),
            large=waits_of(entries, LARGE),
            nodes=mean,
            preempted=sum(user == burst_log.SCHEDULER for user in seen.deleted.values()),
            created=len(seen.made),
            deleted=len(seen.deleted),
            writes=_writes(operator, entries),
        )


def _autoscaler(cluster: ControlPlane, which: Autoscaler) -> AbstractContextManager[object]:
    if which is Autoscaler.CLUSTER_AUTOSCALER:
        group = NodeGroup("general", cpu="8", memory="32Gi", max_count=20, boot_seconds=BOOT_SECONDS)
        return ClusterAutoscaler(cluster, [group])
    return _karpenter(cluster)


@contextmanager
def _karpenter(cluster: ControlPlane) -> Iterator[Karpenter]:
    with Karpenter(cluster, [_EIGHT_CORES]) as karpenter:
        consolidation = "WhenEmptyOrUnderutilized"
        karpenter.add_pool(
            "general", boot_seconds=BOOT_SECONDS, consolidate_after="15s", consolidation=consolidation, cpu_limit="160"
        )
        yield karpenter


def _node_start(cluster: ControlPlane) -> float:
    """Return how long a real pod waits that fits nowhere; its node is gone again afterwards."""
    api, before = cluster.api, len(nodes(cluster.api))
    mark = cluster.audit_mark()
    api.create(deployment("probe", 1, cpu="7", memory="1Gi"))
    wait_until(lambda: any(map(is_running, pods(api, labelSelector="app=probe"))), 120, "the probe to run")
    found = waits_of(cluster.audit_entries(since=mark), "probe").seconds
    if len(found) != 1 or len(nodes(api)) <= before:
        raise HarnessError(f"the probe found room: it was bound after {found}, on one of {before} nodes")
    api.delete("/apis/apps/v1/namespaces/default/deployments/probe")
    wait_until(lambda: len(nodes(api)) == before, 180, "the probe's node to be gone", state=lambda: len(nodes(api)))
    return found[0]


@contextmanager
def _installed(cluster: ControlPlane, form: Form) -> Iterator[tuple[Operator, Installation]]:
    """Install the chart; yield the operator, which is started as its container would be, and how it went."""
    api, helm = cluster.api, Helm(cluster.run_folder, cluster.kubeconfig)
    values = f"--set=operator.hold={form}", f"--set-json=policies={json.dumps({'default': SPEC})}"
    with InstallationClock(api) as clock:
        began = time.monotonic()
        started = helm.start("install", RELEASE, CHART, f"--namespace={NAMESPACE}", "--create-namespace", *values)
        try:
            wait_until(
                lambda: ((api.find(DEPLOYMENT) or {}).get("status") or {}).get("readyReplicas"),
                90,
                "the operator's pod to run",
                state=lambda: started.poll(),
            )
            flags = [flag for flag in arguments(api.get(DEPLOYMENT))[1:] if not flag.startswith("--listen=")]
            identity = cluster.service_account(NAMESPACE, RELEASE)
            with Operator(cluster, *flags, "--log-level=info", identity=identity) as operator:
                container = time.monotonic() - began
                operator.wait_until_ready()
                ready = time.monotonic() - began
                wait_until_placed(api, "default", 180)
                reserved = time.monotonic() - began
                output, _ = started.communicate(timeout=60)
                if started.returncode != 0 or not placeholders(api):
                    raise HarnessError(f"helm install: {output}")
                _check_form(cluster, form)
                yield operator, clock.installation(began, container=container, ready=ready, reserved=reserved)
        finally:
            started.kill()


def _check_form(cluster: ControlPlane, form: Form) -> None:
    bound = [bool(pod["spec"].get("nodeName")) for pod in placeholders(cluster.api)]
    if any(place is not (form is Form.BOUND) for place in bound):
        raise HarnessError(f"{sum(bound)} of {len(bound)} placeholders are bound, and {form} was asked for")


def _burst(cluster: ControlPlane) -> None:
    """Let a burst come and go, and wait until the nodes that it needed are gone, too."""
    before = len(nodes(cluster.api))
    scale(cluster.api, LARGE, LARGE_PODS)
    wait_for_running(cluster.api, LARGE_PODS, 120, labelSelector=f"app={LARGE}")
    wait_until_placed(cluster.api, "default", 180)
    scale(cluster.api, LARGE, 0)
    wait_until(lambda: not pods(cluster.api, labelSelector=f"app={LARGE}"), 60, "the burst to be gone")
    wait_until(lambda: len(nodes(cluster.api)) <= before, 180, f"{before} nodes")
    wait_until_placed(cluster.api, "default", 180)


def _refill(cluster: ControlPlane, operator: Operator) -> tuple[float, dict[str, int]]:
    """Return how long it takes from a burst until the capacity is there again, and what the operator writes."""
    api, mark, began = cluster.api, cluster.audit_mark(), time.monotonic()
    scale(api, LARGE, LARGE_PODS)
    wait_for_running(api, LARGE_PODS, 120, labelSelector=f"app={LARGE}")
    time.sleep(max(3.0 - (time.monotonic() - began), 0.0))  # the status is to have seen the burst
    wait_until_placed(api, "default", 180)
    seconds = time.monotonic() - began
    writes = _writes(operator, cluster.audit_entries(since=mark))
    scale(api, LARGE, 0)
    wait_until(lambda: not pods(api, labelSelector=f"app={LARGE}"), 60, "the burst to be gone")
    return seconds, writes


def _writes(operator: Operator, entries: Sequence[AuditEntry]) -> dict[str, int]:
    return dict(
        Counter(
            f"{entry.verb} {entry.resource}"
            for entry in entries
            if entry.user == operator.user and entry.verb in audit_log.WRITES and entry.resource != LEASES
        )
    )
