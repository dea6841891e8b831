"""The whole chain of load-aware scores: exporters, a real Prometheus, the load watcher, the scorer, the scheduler.

Exporters tell what nodes use, and that follows the pods that are bound; Prometheus may have a history, so that windows
are as long as they say. Nothing is told to the scorer by a suite.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.harness.api import Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.monitoring.node_load import USES_CPU, LoadOfPods, LoadPrometheus, NodeExporters
from e2e.harness.objects import describe, pod, wait_until
from e2e.harness.product.load_watcher import LoadWatcher
from e2e.harness.product.scorer import PATIENT_MS, SCHEDULER, Scorer

CPU = {"idle": 0.05, "low": 0.20, "target": 0.35, "hot": 0.85}
"""What nodes use without the suite's pods: far enough apart that no rounding decides."""
NODES = tuple(CPU)
CORES = 4
MEMORY_GIB = 16
MEMORY = 0.30
PACKING: Json = {"name": "TargetLoadPacking", "args": {"targetUtilization": 50}}
"""With pods of 100m, predicted at 150m: three bring `target` to 46 %, so that a provider may be off by some."""
MEASURED = 'slack_scorer_nodes{state="Measured"}'


@dataclass(frozen=True)
class LoadChain:
    """What runs beside scorer and scheduler."""

    cluster: ControlPlane
    exporters: NodeExporters
    prometheus: LoadPrometheus
    watcher: LoadWatcher
    load: LoadOfPods

    @contextmanager
    def scoring(
        self,
        algorithm: Json,
        before: Iterable[Json] = (),
        settings: Json | None = None,
        timeout_ms: int = PATIENT_MS,
    ) -> Iterator[Scorer]:
        """A scorer with this algorithm that the scheduler asks; it knows the load of all nodes, which alone decides.

        Args:
            algorithm: as in its settings.
            before: objects that are there when it starts.
            settings: more of them.
            timeout_ms: how long the scheduler waits for a score.
        """
        with cleaned(self.cluster.api):
            for manifest in before:
                self.cluster.api.create(manifest)
            with Scorer(self.cluster, self.watcher.url, [algorithm], **{"scale": 100, **(settings or {})}) as scorer:
                self.cluster.restart_scheduler(configuration=scorer.scheduler_configuration(timeout_ms))
                knows_load(scorer)
                yield scorer

    def place(self, name: str, uses_cpu: float = 0.1, **spec: Any) -> str:
        """Create a pod and return its node."""
        asked = {"cpu": "100m", "memory": "64Mi", "schedulerName": SCHEDULER, **spec}
        self.cluster.api.create(pod(name, annotations={USES_CPU: str(uses_cpu)}, **asked))
        path = f"/api/v1/namespaces/default/pods/{name}"

        def bound() -> str | None:
            node: str | None = self.cluster.api.get(path)["spec"].get("nodeName")
            return node

        found = wait_until(bound, 30, f"a node for {name}", state=lambda: describe(self.cluster.api.get(path)))
        return str(found)


@contextmanager
def load_chain(cluster: ControlPlane, folder: Path, *flags: str, history_seconds: float = 0.0) -> Iterator[LoadChain]:
    """Four nodes, their exporters, and what reads those; the scheduler is as it was when all is over.

    Args:
        cluster: where the nodes are.
        folder: of logs and data.
        flags: of the load watcher.
        history_seconds: for how long nodes have used that already.
    """
    with cleaned(cluster.api), NodeExporters() as exporters:
        for index, (name, share) in enumerate(CPU.items()):
            cluster.api.create(kwok.node(name, cpu=str(CORES), memory=f"{MEMORY_GIB}Gi"))
            node = exporters.add(name, f"10.0.0.{index + 1}")
            node.memory_bytes = MEMORY_GIB << 30
            node.use(share, MEMORY)
        exporters.nodes["idle"].memory_swing = 0.29
        with LoadPrometheus(folder, exporters, history_seconds) as prometheus:
            prometheus.wait_for_rates()
            told = ("--provider=prometheus", f"--address={prometheus.url}", *flags)
            with (
                LoadWatcher(folder, *told, nodes=len(NODES), cluster=cluster) as watcher,
                LoadOfPods(cluster.api, exporters, CPU) as load,
            ):
                watcher.told()
                try:
                    yield LoadChain(cluster, exporters, prometheus, watcher, load)
                finally:
                    cluster.restart_missing()
                    cluster.restart_scheduler()


def knows_load(scorer: Scorer) -> None:
    """Wait until it knows the load of all nodes."""
    wait_until(lambda: scorer.metric(MEASURED) == len(NODES), 60, "the load", lambda: scorer.health("/metrics")[1])


def explained(scorer: Scorer, name: str) -> Json:
    """Return what the scorer says of a pod once it has seen it on its node."""

    def remembered() -> Json | None:
        found = scorer.explain(name)
        return found if found is not None and found["node"] and found["remembered"] else None

    found = wait_until(remembered, 30, f"an explanation of {name}", state=lambda: scorer.explain(name))
    assert found is not None
    return found
