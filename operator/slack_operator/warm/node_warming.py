"""Pulls images on nodes with placeholders: one thread, which decides by `slack.planner.warm` and keeps its pods.

Each turn it looks at its pods, deletes those that have ended, and makes those that the decision asks for. It makes none
while the process does not lead, and deletes all when no policy warms. A restart forgets what goes on, and deletes the
pods of it: what their nodes have pulled so far stays there.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from slack.cluster.snapshot import Snapshot
from slack.kube.apply import Json
from slack.kube.errors import ApiError, KubeError
from slack.planner.model.result import PolicyPlan
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.spec import Policy
from slack.planner.policy.warm import Warm
from slack.planner.warm.choice import ImagePullOrder, WarmLimits, WarmNode, WarmPulls
from slack.planner.warm.images import KnownImages, WantedImage, known_images, wanted_images
from slack.planner.warm.pods import warm_name, warm_pod
from slack.planner.warm.program import ARCHITECTURES
from slack.process.outages import Outages
from slack.schema.conditions import StatusCondition
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.warm.problems import REFUSED, SWITCHED_OFF, conditions_of, refused_conditions
from slack_operator.warm.warm_api import NodeImages, WarmPod

log = logging.getLogger(__name__)

TURN_SECONDS = 5.0
FRESH_SECONDS = 60.0
"""How old what is known of a node may be when something is pulled there."""
NODES_A_TURN = 20
PULLED = "Pulled"
LIMIT_SECONDS = 300.0
"""Without a turn that ended the thread counts as stuck."""


class WarmCluster(Protocol):
    """Reads and writes, see `WarmApi`."""

    def node(self, name: str) -> NodeImages | None:
        """Return a node's images."""

    def pods(self) -> list[WarmPod]:
        """Return our pods that pull."""

    def create(self, pod: Json) -> None:
        """Create a pod."""

    def delete(self, pod: WarmPod) -> None:
        """Delete a pod."""

    def write_program(self) -> None:
        """Write the program that the pods run."""


@dataclass(frozen=True, slots=True)
class WarmPolicy:
    """What one policy asks for, by the last plan."""

    policy: Policy
    warm: Warm
    nodes: Mapping[str, int]
    """By name of a node: how many placeholders hold capacity there."""
    wanted: Sequence[WantedImage]


def warm_policies(
    snapshot: Snapshot,
    planned_policies: Sequence[PlannedPolicy],
    plans: Sequence[PolicyPlan],
    images_of: Mapping[str, Sequence[str]],
) -> list[WarmPolicy]:
    """Return what policies ask for.

    Args:
        snapshot: the cluster that the plans were made of.
        planned_policies: in the order of the plans.
        plans: of these.
        images_of: of the newest template or pod of a workload, as `shop/deploy/api`.
    """
    arrivals: Counter[str] = Counter()
    for workload, count in zip(snapshot.kinds.workloads, snapshot.kinds.arrivals.tolist(), strict=True):
        arrivals[str(workload)] += count
    found = []
    for planned, plan in zip(planned_policies, plans, strict=True):
        warm = planned.policy.spec.warm
        if warm is None or not plan.act:
            continue
        nodes = Counter(
            snapshot.nodes.names[pod.node]
            for pod in snapshot.placeholders
            if pod.policy == plan.policy and pod.is_held and pod.node >= 0
        )
        covered = {name for shape in plan.shapes for name in shape.workloads} if warm.images == "Covered" else set()
        own = {name: arrivals[name] for name in covered if arrivals[name]}
        wanted = wanted_images(own, images_of, least_share=warm.min_share, named=warm.image_list)
        found.append(WarmPolicy(planned.policy, warm, nodes, wanted))
    return found


OnPull = Callable[[str, str, int], None]
"""Is told of each pull that has ended: policy, `Pulled` or the reason of the failure, and bytes."""


class NodeWarming:
    """The thread. `start` and `stop` belong to the main thread, `look` and `condition` to the loop's."""

    def __init__(
        self,
        cluster: WarmCluster,
        images_of: Callable[[], Mapping[str, Sequence[str]]],
        *,
        enabled: bool,
        namespace: str,
        user: int | None,
        extras: Placeholders,
        limits: WarmLimits,
        may_write: Callable[[], bool],
        on_pull: OnPull,
        clock: Callable[[], float],
    ) -> None:
        """A thread that is not started yet.

        Args:
            cluster: what it reads and writes.
            images_of: images by workload, as `shop/deploy/api`.
            enabled: whether images are pulled; without it only pods that an earlier process has left are deleted.
            namespace: the operator's.
            user: that the pods run as.
            extras: what all placeholders have where admission policies demand it.
            limits: of the whole cluster.
            may_write: whether this process leads.
            on_pull: is told of each pull.
            clock: monotonic seconds.
        """
        self._cluster = cluster
        self._images_of = images_of
        self._enabled = enabled
        self._namespace = namespace
        self._user = user
        self._extras = extras
        self._limits = limits
        self._may_write = may_write
        self._on_pull = on_pull
        self._clock = clock
        self._pulls = WarmPulls()
        self._policies: Sequence[WarmPolicy] = ()
        self._conditions: Mapping[str, StatusCondition] = MappingProxyType({})
        """By policy: what is wrong. Replaced as a whole, for the loop reads it."""
        self._policy_of: dict[str, str] = {}
        """By node whose image is pulled: the policy that wants it."""
        self._read_at: dict[str, float] = {}
        """By node: when it was read."""
        self._nodes: dict[str, NodeImages] = {}
        """Of nodes that were read lately: what they have."""
        self._known = KnownImages()
        self._may_have_pods = True
        """An earlier process may have left some."""
        self._outages = Outages(clock)
        self._stopping = threading.Event()
        heart = Heartbeat("the thread that pulls images", LIMIT_SECONDS)
        self._thread = SupervisedThread(self._run, name="warm", heart=heart)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._thread.dismiss()
        self._stopping.set()
        self._thread.join(timeout=2.0)

    def unhealthy(self) -> str | None:
        """Return why nothing is pulled any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def look(
        self, observation: Observation, planned_policies: Sequence[PlannedPolicy], plans: Sequence[PolicyPlan]
    ) -> None:
        """Take from the last plan where placeholders are, and which workloads arrive."""
        warming = self._enabled and any(planned.policy.spec.warm is not None for planned in planned_policies)
        images = self._images_of() if warming else {}
        self._policies = warm_policies(observation.snapshot, planned_policies, plans, images) if warming else ()

    def condition(self, policy: Policy) -> StatusCondition | None:
        """Return ImagesNotPulled for a policy while nodes lack an image that it wants."""
        if policy.spec.warm is None:
            return None
        return self._conditions.get(policy.name) if self._enabled else SWITCHED_OFF

    def _run(self) -> None:
        while not self._thread.heart.rest(self._stopping, TURN_SECONDS):
            try:
                self.warm_due()
                self._thread.heart.worked()
            except KubeError as error:
                if isinstance(error, ApiError):
                    self._conditions = refused_conditions([each.policy.name for each in self._policies], str(error))
                if self._outages.is_new(type(error).__name__):
                    log.warning("images are not pulled: %s", error)
                self._thread.heart.worked()
            except Exception as error:
                if self._outages.is_new(type(error).__name__):
                    log.exception("pulling images failed")
                self._thread.heart.failed(error)

    def warm_due(self) -> None:
        """Look at the pods, and make those that are due.

        Raises:
            KubeError: something could not be read or written; the next turn tries again.
        """
        policies = self._policies
        if not self._may_write():
            self._may_have_pods, self._conditions = True, {}
            return
        if policies or self._may_have_pods:  # switched off since, or no policy asks any more
            self._settle(self._cluster.pods(), keep=bool(policies))
        owner = {name: each for each in policies for name in each.nodes}
        self._pulls.keep_only(owner)
        if not policies:
            self._read_at, self._nodes, self._known, self._conditions = {}, {}, KnownImages(), {}
            return
        self._read_nodes(owner)
        orders = self._choose(owner)
        self._conditions = conditions_of(
            self._pulls.problems(), {node: each.policy.name for node, each in owner.items()}
        )
        self._begin(orders, owner)

    def _settle(self, pods: Sequence[WarmPod], *, keep: bool) -> None:
        """Delete pods that have ended, and all of them when no policy warms."""
        now, left = self._clock(), 0
        running = {warm_name(order.node, order.image): order.node for order in self._pulls.running.values()}
        for pod in pods:
            node = running.pop(pod.name, None)
            if keep and node is not None and pod.phase != "Succeeded" and not pod.reason:
                left += 1
                continue
            if node is not None and pod.phase == "Succeeded":
                self._end_well(node, now)
            elif node is not None:
                self._fail(node, pod.reason or "Stopped", pod.message, now)
            self._cluster.delete(pod)
        for node in running.values():
            self._fail(node, "Deleted", "its pod was deleted", now)
        self._may_have_pods = bool(left)

    def _end_well(self, node: str, now: float) -> None:
        order = self._pulls.end_pull(node, self._known, now)
        if order is not None:
            self._on_pull(self._policy_of.pop(node, ""), PULLED, order.size_bytes)

    def _fail(self, node: str, reason: str, message: str, now: float) -> None:
        self._pulls.fail_pull(node, reason, message, now)
        self._on_pull(self._policy_of.pop(node, ""), reason, 0)

    def _read_nodes(self, owner: Mapping[str, WarmPolicy]) -> None:
        """Read the nodes that were read longest ago, few a turn, and forget what is old."""
        now = self._clock()
        self._read_at = {name: at for name, at in self._read_at.items() if name in owner}
        stale = [name for name in owner if now - self._read_at.get(name, float("-inf")) > FRESH_SECONDS / 2]
        stale.sort(key=lambda name: (self._read_at.get(name, float("-inf")), -owner[name].nodes[name], name))
        for name in stale[:NODES_A_TURN]:
            found = self._cluster.node(name)
            self._read_at[name] = now
            if found is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = found
        fresh = {name for name, at in self._read_at.items() if now - at <= FRESH_SECONDS}
        self._nodes = {name: known for name, known in self._nodes.items() if name in fresh}
        self._known = known_images(known.images for known in self._nodes.values())

    def _choose(self, owner: Mapping[str, WarmPolicy]) -> list[ImagePullOrder]:
        nodes = [
            WarmNode(
                name=name,
                placeholders=owner[name].nodes[name],
                images=known.sizes,
                used_bytes=known.used_bytes,
                disk_bytes=known.disk_bytes,
                pressure=known.pressure,
                architecture=known.architecture,
                max_bytes=owner[name].warm.max_bytes_per_node,
                wanted=owner[name].wanted,
                lists_all=known.lists_all,
            )
            for name, known in self._nodes.items()
            if known.architecture in ARCHITECTURES and not known.unschedulable
        ]
        return self._pulls.choose(nodes, self._known, self._limits, self._clock())

    def _begin(self, orders: Sequence[ImagePullOrder], owner: Mapping[str, WarmPolicy]) -> None:
        """Make the pods.

        Raises:
            KubeError: one was refused; those that are not made yet wait, too.
        """
        waiting = list(orders)
        try:
            if waiting:
                self._cluster.write_program()
            while waiting:
                self._cluster.create(self._pod(waiting[0], owner[waiting[0].node]))
                self._policy_of[waiting[0].node] = owner[waiting[0].node].policy.name
                self._may_have_pods = True
                waiting.pop(0)
        except KubeError as error:
            for order in waiting:
                self._policy_of[order.node] = owner[order.node].policy.name
                self._fail(order.node, REFUSED, str(error), self._clock())
            raise

    def _pod(self, order: ImagePullOrder, own: WarmPolicy) -> Json:
        return warm_pod(
            order,
            self._nodes[order.node].uid,
            namespace=self._namespace,
            priority_class_name=own.policy.spec.priority_class_name,
            pull_secrets=tuple(secret.name for secret in own.warm.image_pull_secrets),
            user=self._user,
            extras=own.policy.spec.placeholders.added_to(self._extras),
        )
