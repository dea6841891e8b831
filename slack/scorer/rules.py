"""Settings that all algorithms share: which window, how old it may be, what pods are expected to use, and what decides
if too little is measured."""

from dataclasses import dataclass
from enum import StrEnum


class PodUse(StrEnum):
    """What a container is expected to use."""

    LIMITS = "Limits"
    """Its limit; without one its request times the multiplier."""
    REQUESTS_TIMES_MULTIPLIER = "RequestsTimesMultiplier"
    REQUESTS = "Requests"


class Formula(StrEnum):
    """Which text holds where the two differ."""

    IMPLEMENTED = "Implemented"
    """As the scheduler plugins of kubernetes-sigs compute it."""
    PROPOSAL = "Proposal"
    """As the Trimaran proposal (KEP 61) has it."""


class WithoutLoad(StrEnum):
    """What decides if the load of no node is known."""

    SPREAD = "Spread"
    """Requests: the node with the smallest requested share first, as the stock scheduler's default profile does."""
    NEUTRAL = "Neutral"
    """Nothing of the scorer: all nodes score the same, and the scheduler's plugins decide."""
    PACK = "Pack"
    """Requests: the fullest node that has space first, as the proposal says."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """How the use of a pod is predicted, before it is bound and until the metrics show it."""

    use: PodUse = PodUse.REQUESTS_TIMES_MULTIPLIER
    multiplier: float = 1.5
    default_cpu_millis: int = 1
    """Of a container that requests none."""
    default_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MetricRules:
    """What holds when metrics are missing, late or wrong (the proposal's section on bad metrics)."""

    window_seconds: float = 300.0
    """Which window is asked first: its own length covers a pod five minutes after it was bound. Then the next shorter
    ones, then longer ones."""
    most_age_seconds: float = 300.0
    """A window that ended longer ago is ignored."""
    most_ahead_seconds: float = 60.0
    """A window that ends later than this from now tells nothing either."""
    recent_seconds: float = 300.0
    """For how long a pod counts as recent, and over how long a window takes it in."""
    reporting_seconds: float = 60.0
    """How long the use of a pod takes to reach the metrics."""
    new_node_seconds: float = 900.0
    """How long a node may do without metrics after it was made, while no older pods run there."""
    prediction: Prediction = Prediction()
    """Of the pod that is to be placed, and of pods that were bound recently."""
    min_measured_share: float = 0.5
    """If a smaller share of the nodes has a known CPU load, all nodes score the same. The rest would have the minimum,
    and all pods would go to the few nodes that are measured."""
    without_load: WithoutLoad = WithoutLoad.SPREAD

    @property
    def recent_kept_seconds(self) -> float:
        """For how long a recent pod may matter: longer, and nobody needs to remember it."""
        return self.recent_seconds + self.reporting_seconds + self.most_age_seconds
