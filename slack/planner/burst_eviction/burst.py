"""A burst: equal pods that have no node yet, those that are there and those that their owner is about to make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from slack.cluster.classes import Constraints
from slack.cluster.snapshot import Amounts
from slack.cluster.unchecked import AMONG_PODS, CLAIMS, Unchecked


class LeftAlone(StrEnum):
    """Why no placeholder leaves for a burst, or for some of its pods.

    They take free room all the same, but for those that the placeholders' scheduler does not consider.
    """

    GATED = "gated"
    """Its scheduling gates keep the scheduler from looking at it."""
    SCHEDULER = "scheduler"
    """Another scheduler than the placeholders'."""
    PRIORITY = "priority"
    """Not above that of any placeholder that it could stand in for."""
    NEVER_PREEMPTS = "never-preempts"
    """preemptionPolicy: Never: who says so does not want others to go for it."""
    QUOTA = "quota"
    """A ResourceQuota will refuse the pods, or a LimitRange, or the priority's admission."""
    AMONG_PODS = "among-pods"
    """Pod affinity, anti-affinity or spread that a choice of nodes cannot answer for."""
    CLAIMS = "claims"
    """Devices or volumes decide where it may go."""
    HOST_PORTS = "host-ports"
    """It takes ports of its node; whether they are taken there is not known."""
    NOMINATED = "nominated"
    """The scheduler is preempting for it already."""
    CROWDED = "crowded"
    """More kinds of pods lack room than are looked at in one choice: any tenant can make each pod of another size."""
    LONE = "lone"
    """One pod alone lacks room: the scheduler's own preemption is as quick."""
    NO_FIT = "no-fit"
    """It would not fit even if every placeholder left that may."""


_BY_PART: Mapping[Unchecked, LeftAlone] = {
    Unchecked.HOST_PORTS: LeftAlone.HOST_PORTS,
    **dict.fromkeys(AMONG_PODS, LeftAlone.AMONG_PODS),
    **dict.fromkeys(CLAIMS, LeftAlone.CLAIMS),
}


def left_alone_for(parts: Sequence[Unchecked]) -> LeftAlone | None:
    """Return why pods are left to the scheduler about whose node more decides than is checked."""
    return _BY_PART[parts[0]] if parts else None


@dataclass(frozen=True, slots=True)
class PodBurst:
    """Equal pods without a node; two bursts of equal pods are one."""

    key: str
    """For messages and the ledger: `shop/deploy/api`. Of one choice each is another."""
    requests: Amounts
    """Of one pod, in effect."""
    constraints: Constraints
    count: int
    """Pods that are there without a node, and those that are promised."""
    priority: int
    whole: bool = False
    """A gang: they start together or not at all."""
    one_a_node: bool = False
    """They avoid one another on a node (required anti-affinity over the host name)."""
    barred: frozenset[str] = frozenset()
    """Names of nodes that they cannot go to for a reason that only the caller sees, as those where one of them is."""
    node: str | None = None
    """The only node that they can go to, where the scheduler has nominated one: what leaves there it sees to itself."""
    left_alone: LeftAlone | None = None
    """Why no placeholder may leave for them."""
