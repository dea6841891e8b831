"""What the series of one pod or node in a Prometheus tell of it, gathered answer by answer."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from slack.simulator.traces.state_metrics import MetricSample, label_map, resource, units


@dataclass(slots=True)
class TracedPodFacts:
    """A pod; times are Unix seconds."""

    info: Mapping[str, str] = field(default_factory=dict)
    created: float | None = None
    scheduled: float | None = None
    finished: float | None = None
    """When it was first seen in its last phase."""
    completed: float | None = None
    """When its last container ended, be it to start again."""
    last_seen: float = 0.0
    requests: dict[tuple[str, str], float] = field(default_factory=dict)
    """By container and resource."""
    init_requests: dict[tuple[str, str], float] = field(default_factory=dict)
    sidecars: set[str] = field(default_factory=set)
    """Init containers that go on beside the containers."""
    selector: dict[str, str] = field(default_factory=dict)
    tolerations: set[tuple[str, str, str, str]] = field(default_factory=set)
    """Key, operator, value, effect."""

    def add_sample(self, query: str, sample: MetricSample) -> None:
        """Take a sample of the answer to one of QUERIES."""
        labels = sample.labels
        match query:
            case "pod_created":
                self.created = sample.value
            case "pod_scheduled":
                self.scheduled = sample.value
            case "pod_finished":
                self.finished = sample.value if self.finished is None else min(self.finished, sample.value)
            case "pod_completed":
                self.completed = sample.value
            case "pod_last_seen":
                self.last_seen = max(self.last_seen, sample.value)
            case "pod_info":
                # Before its binding a pod has another series, without the node; the answer's order says nothing.
                # A node that is not exported beside one that is, is the scraped target's own.
                if "exported_node" not in self.info and (sample.label("node") or not self.info.get("node")):
                    self.info = {**labels, "node": sample.label("node")}
            case "pod_requests":
                self.requests[sample.label("container"), sample.label("resource")] = sample.value
            case "pod_init_requests":
                self.init_requests[sample.label("container"), sample.label("resource")] = sample.value
            case "pod_sidecars":
                self.sidecars.add(sample.label("container"))
            case "pod_selectors":
                self.selector = label_map(labels, "nodeselector_")
            case "pod_tolerations":
                key, operator, value, effect = map(sample.label, ("key", "operator", "value", "effect"))
                self.tolerations.add((key, operator or "Equal", value, effect))

    def amounts(self) -> dict[str, int]:
        """Return effective requests: of all containers together, or of the init container that requests more.

        Sidecars go on beside both. Their order is not told: sidecars are taken to start first.
        """
        total: dict[str, int] = defaultdict(int)
        beside: dict[str, int] = defaultdict(int)
        for (_, name), value in self.requests.items():
            total[resource(name)] += units(name, value)
        for (container, name), value in self.init_requests.items():
            if container in self.sidecars:
                beside[resource(name)] += units(name, value)
            else:
                total[resource(name)] = max(total[resource(name)], units(name, value))
        return {name: total[name] + beside[name] for name in {*total, *beside} if total[name] + beside[name] > 0}


@dataclass(slots=True)
class TracedNodeFacts:
    """A node; times are Unix seconds."""

    created: float | None = None
    ready: float | None = None
    last_seen: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, float] = field(default_factory=dict)
    taints: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """Key, value and effect, and when it was last seen."""

    def add_sample(self, query: str, sample: MetricSample) -> None:
        """Take a sample of the answer to one of QUERIES."""
        match query:
            case "node_created":
                self.created = sample.value
            case "node_ready":
                self.ready = sample.value if self.ready is None else min(self.ready, sample.value)
            case "node_last_seen":
                self.last_seen = max(self.last_seen, sample.value)
            case "node_labels":
                self.labels |= label_map(sample.labels, "label_")  # labels that came later make another series
            case "node_allocatable":
                self.allocatable[sample.label("resource")] = sample.value
            case "node_taints":
                taint = sample.label("key"), sample.label("value"), sample.label("effect")
                self.taints[taint] = max(self.taints.get(taint, 0.0), sample.value)
