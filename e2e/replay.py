"""A scenario on the real control plane: real scheduler, autoscaler and operator, in real time.

The flags of every component come from the scenario. Time zero is when the steady load runs and the slack is whole: the
end of the scenario's warm-up. What is seen is put into the same terms as a simulated run's.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import NODEPOOLS, InstanceType, Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.errors import HarnessError
from e2e.harness.objects import condition, deployment, nodes, pod, wait_for_running
from e2e.harness.pod_times import PodClock
from e2e.harness.processes import Program
from e2e.harness.product.operator import Operator, policy, wait_until_placed
from e2e.scenes import INSTANCE_TYPE, waves
from slack.cluster.quantity import format_quantity
from slack.planner.policy.spec import PolicySpec
from slack.simulator.model.result import Result
from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler as ClusterAutoscalerSettings
from slack.simulator.scenario.autoscaler_settings import Karpenter as KarpenterSettings
from slack.simulator.scenario.inventory import ScenarioWorkload
from slack.simulator.scenario.load import DeploymentReplicas
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

LEAVING_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"})
SAMPLE_SECONDS = 0.5
SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Observed:
    """One run, simulated or real."""

    pods: int
    """That came in the measured time."""
    waits: tuple[float, ...]
    """Seconds from creation to binding (or to the end), sorted; empty for a simulated run, which gives the rest."""
    instant_start_ratio: float
    p50_seconds: float
    p95_seconds: float
    displaced: int
    nodes: tuple[tuple[float, int], ...]
    """(second, ready nodes that are not on their way out)."""

    def nodes_at(self, second: float) -> int:
        """Return how many nodes there were."""
        return next((count for at, count in reversed(self.nodes) if at <= second), self.nodes[0][1])


def simulated(result: Result, scenario: Scenario) -> Observed:
    """Put a Result into the terms of both."""
    warm_up = scenario.warm_up.total_seconds()
    timeline = tuple((row.time_seconds - warm_up, row.nodes) for row in result.timeline if row.time_seconds >= warm_up)
    total = result.total
    return Observed(
        total.pods,
        (),
        total.instant_start_ratio,
        total.p50_seconds,
        total.p95_seconds,
        result.placeholders_displaced,
        timeline,
    )


def replay(
    cluster: Backend,
    scenario: Scenario,
    boot_seconds: int,
    record: "Recorder | None" = None,
    *,
    program: Sequence[str] = (),
    begin: float | None = None,
) -> Observed:
    """Play a scenario on an empty cluster and tell what was seen; what it made is left to the caller to clean.

    Args:
        cluster: up and empty.
        scenario: one node group, deployments and replayed workloads.
        boot_seconds: of the real nodes.
        record: started when time zero comes, stopped at the end.
        program: what to call instead of the installed operator.
        begin: when time zero comes (Unix time); as soon as all is there where it is not given.
    """
    api = cluster.api
    with ExitStack() as stack:
        stack.enter_context(_autoscaler(cluster, scenario, boot_seconds))
        for workload in scenario.workloads:
            if isinstance(workload.arrivals, DeploymentReplicas):
                replicas = workload.arrivals.replicas
                api.create(deployment(workload.name, replicas, **_requests(workload)))
                wait_for_running(api, replicas, 120, labelSelector=f"app={workload.name}")
        operator: Operator | None = None
        if isinstance(scenario.slack, Policies):
            interval = f"{scenario.operator.interval.total_seconds():g}s"
            operator = stack.enter_context(Operator(cluster, f"--interval={interval}", program=program))
            operator.wait_until_ready()
            for entry in scenario.slack.policies:
                api.create(policy(entry.name, **_spec(entry.spec)))
                wait_until_placed(api, entry.name, 120)
        # The API's times are whole seconds: a pod bound in the second in which the recording begins counts as new.
        time.sleep(SETTLE_SECONDS)
        if record is not None:
            record.start(cluster)
            stack.callback(record.stop)
        if begin is not None:
            if time.time() > begin:
                raise HarnessError(
                    f"the components took {time.time() - begin:.0f} s longer to be ready than there were"
                )
            time.sleep(begin - time.time())
        return _measured(api, scenario, operator)


def _measured(api: Api, scenario: Scenario, operator: Operator | None) -> Observed:
    seconds = (scenario.duration - scenario.warm_up).total_seconds()
    by_name = {workload.name: workload for workload in scenario.workloads}
    before = _displaced(operator)
    with PodClock(api, "default") as clock, NodeCount(api) as count:
        began = count.began
        for number, (at, name, pods, life) in enumerate(waves(scenario)):
            time.sleep(max(began + at - time.monotonic(), 0))
            api.create(job(f"{name}-{number}", by_name[name], pods, life))
        time.sleep(max(began + seconds - time.monotonic(), 0))
        ended = time.monotonic()
        instant = scenario.instant_seconds
        came = [entry for entry in clock.times() if entry.created >= began and entry.labels.get("app") in by_name]
        waited = [(entry.bound is not None, (entry.bound or ended) - entry.created) for entry in came]
        # As the simulator's meter: a pod that came in the last instant and is not bound says nothing.
        waits = sorted(seconds for bound, seconds in waited if bound or seconds > instant)
        if not waits:
            raise HarnessError("none of the replayed pods came")
        return Observed(
            len(waits),
            tuple(waits),
            sum(wait <= instant for wait in waits) / len(waits),
            at_share(waits, 0.5),
            at_share(waits, 0.95),
            _displaced(operator) - before,
            tuple(count.samples),
        )


def at_share(ordered: list[float], share: float) -> float:
    """Return the smallest value that so many do not exceed, as the simulator's meter does."""
    return ordered[max(-int(-share * len(ordered) // 1) - 1, 0)]


def _displaced(operator: Operator | None) -> int:
    return 0 if operator is None else int(operator.metric("slack_displaced_total", cause="PreemptionByScheduler"))


class NodeCount:
    """Counts nodes while it is open: ready ones that nobody is taking away."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="node-count", daemon=True)
        self.began = 0.0
        self.samples: list[tuple[float, int]] = []

    def __enter__(self) -> "NodeCount":
        self.began = time.monotonic()
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(timeout=10)

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            try:
                self._take()
            except (ApiError, urllib3.exceptions.HTTPError):
                continue  # the next sample comes soon

    def _take(self) -> None:
        at = time.monotonic() - self.began
        self.samples.append((at, sum(map(_is_there, nodes(self._api)))))


def _is_there(node: Json) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints") or []}
    leaving = "deletionTimestamp" in node["metadata"] or taints & LEAVING_TAINTS
    return condition(node, "Ready") == "True" and not leaving


def job(name: str, workload: ScenarioWorkload, pods: int, life: int) -> Json:
    """Return a Job whose pods all come at once and run so long; its controller makes anew what is evicted."""
    form = pod(name, **_requests(workload), restartPolicy="Never")
    metadata = {"labels": {"app": workload.name}, "annotations": {kwok.RUN_SECONDS: str(life)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "template": {"metadata": metadata, "spec": form["spec"]},
        },
    }


def _requests(workload: ScenarioWorkload) -> dict[str, Any]:
    return {name: format_quantity(name, amount) for name, amount in workload.requests.items()}


def _spec(spec: PolicySpec) -> dict[str, Any]:
    """Return what these scenarios set of a policy's spec."""
    rate, aim = spec.extra_capacity.min_rate, spec.objective
    return {
        **({} if spec.hold is None else {"hold": spec.hold}),
        **({} if rate is None else {"extraCapacity": {"minRate": rate}}),
        **({} if aim is None else {"objective": {"instantStart": aim.instant_start}}),
        "stabilization": {"shrinkDelay": f"{spec.stabilization.shrink_delay.total_seconds():.0f}s"},
    }


@contextmanager
def _autoscaler(cluster: Backend, scenario: Scenario, boot_seconds: int) -> Iterator[None]:
    """Run the real one with the flags that the scenario's constants are."""
    group = scenario.node_groups[0]
    settings = scenario.autoscaler
    if isinstance(settings, KarpenterSettings):
        # The kwok build takes 100m CPU and 10Mi off every instance type.
        cpu, memory = group.allocatable["cpu"] + 100, group.allocatable["memory"] // 2**20 + 10
        kind = InstanceType(INSTANCE_TYPE, f"{cpu}m", f"{memory}Mi", group.price_per_hour)
        flags = [
            f"--batch-idle-duration={settings.batch_idle_seconds}s",
            f"--batch-max-duration={settings.batch_max_seconds}s",
        ]
        with Karpenter(cluster, [kind], flags) as karpenter:
            after = f"{settings.consolidate_after_seconds:g}s"
            karpenter.add_pool(
                "default",
                boot_seconds=boot_seconds,
                consolidate_after=after,
                consolidation=settings.consolidation_policy,
            )
            budgets = [{"nodes": f"{settings.budget_share:.0%}"}]
            cluster.api.patch(f"{NODEPOOLS}/default", {"spec": {"disruption": {"budgets": budgets}}})
            yield
    elif isinstance(settings, ClusterAutoscalerSettings):
        template = NodeGroup(
            group.name,
            cpu=format_quantity("cpu", group.allocatable["cpu"]),
            memory=format_quantity("memory", group.allocatable["memory"]),
            min_count=group.min,
            max_count=group.max,
            boot_seconds=boot_seconds,
        )
        flags = [
            f"--scan-interval={settings.scan_interval_seconds}s",
            f"--scale-down-unneeded-time={settings.scale_down_unneeded_time.total_seconds()}s",
            f"--scale-down-delay-after-add={settings.scale_down_delay_after_add.total_seconds()}s",
            f"--scale-down-delay-after-delete={settings.scale_down_delay_after_delete_seconds}s",
            f"--unremovable-node-recheck-timeout={settings.unremovable_node_recheck_timeout.total_seconds()}s",
            f"--frequent-loops-enabled={str(settings.frequent_loops_enabled).lower()}",
            f"--scale-down-utilization-threshold={settings.scale_down_utilization_threshold}",
        ]
        with ClusterAutoscaler(cluster, [template], flags):
            yield
    else:
        yield


class Recorder:
    """`resource-slack record` beside a run."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._program: Program | None = None

    def start(self, cluster: Backend) -> None:
        """Start recording and wait until the cluster is seen."""
        command = [
            str(Path(sys.executable).with_name("resource-slack")),
            "record",
            f"--out={self.out}",
            "--overwrite",
            f"--kubeconfig={cluster.kubeconfig}",
        ]
        program = self._program = Program("record", command, cluster.run_folder).start()
        program.wait_until_ready(lambda: "recording into" in program.log_path.read_text(encoding="utf-8"), seconds=30)

    def stop(self) -> None:
        """End the recording in order (SIGTERM), which writes the file."""
        if self._program is not None:
            self._program.stop(seconds=20.0)
