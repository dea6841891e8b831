"""Pulls images on nodes with placeholders: one thread, which decides by `slack.planner.warm` and keeps its pods.

Each turn it looks at its pods, deletes those that have ended, and makes those that the decision asks for. It makes none
while the process does not lead, and deletes all when no policy warms. A restart forgets what goes on: pods that are
there have the names of their pulls, so none is made twice.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slack.cluster.snapshot import Snapshot
from slack.kube.apply import Json
from slack.kube.errors import KubeError
from slack.planner.model.result import PolicyPlan
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.spec import Policy
from slack.planner.policy.warm import Warm
from slack.planner.warm.choice import WantedImage, WarmLimits, WarmNode, WarmPulls, wanted_images
from slack.planner.warm.pods import warm_name, warm_pod
from slack.planner.warm.program import ARCHITECTURES
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.warm.warm_api import NodeImages, WarmPod

log = logging.getLogger(__name__)

TURN_SECONDS = 5.0
FRESH_SECONDS = 60.0
"""How old what is known of a node may be when something is pulled there."""
NODES_A_TURN = 20
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


class NodeWarming:
    """The thread. `start` and `stop` belong to the main thread, `look` to the loop's."""

    def __init__(
        self,
        cluster: WarmCluster,
        images_of: Callable[[], Mapping[str, Sequence[str]]],
        *,
        namespace: str,
        user: int | None,
        extras: Placeholders,
        limits: WarmLimits,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        """A thread that is not started yet.

        Args:
            cluster: what it reads and writes.
            images_of: images by workload, as `shop/deploy/api`.
            namespace: the operator's.
            user: that the pods run as.
            extras: what all placeholders have where admission policies demand it.
            limits: of the whole cluster.
            may_write: whether this process leads.
            clock: monotonic seconds.
        """
        self.problem: str | None = None
        """Why an image cannot be pulled, in words for a condition; None while all is well."""
        self._cluster = cluster
        self._images_of = images_of
        self._namespace = namespace
        self._user = user
        self._extras = extras
        self._limits = limits
        self._may_write = may_write
        self._clock = clock
        self._pulls = WarmPulls()
        self._policies: Sequence[WarmPolicy] = ()
        self._nodes: dict[str, tuple[float, NodeImages]] = {}
        """By name: when it was read, and what it has."""
        self._has_program = False
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
        warming = any(planned.policy.spec.warm is not None for planned in planned_policies)
        images = self._images_of() if warming else {}
        self._policies = warm_policies(observation.snapshot, planned_policies, plans, images) if warming else ()

    def _run(self) -> None:
        while not self._thread.heart.rest(self._stopping, TURN_SECONDS):
            try:
                self.turn()
                self._thread.heart.worked()
            except KubeError as error:
                self.problem = str(error)
                if self._outages.is_new(type(error).__name__):
                    log.warning("images are not pulled: %s", error)
                self._thread.heart.worked()
            except Exception as error:
                if self._outages.is_new(type(error).__name__):
                    log.exception("pulling images failed")
                self._thread.heart.failed(error)

    def turn(self) -> None:
        """Look at the pods, and make those that are due.

        Raises:
            KubeError: something could not be read or written; the next turn tries again.
        """
        policies = self._policies
        if not self._may_write():
            self._may_have_pods = True
            return
        if policies or self._may_have_pods:
            self._settle(self._cluster.pods(), keep=bool(policies))
        if not policies:
            self.problem = None
            return
        held = self._held(policies)
        self._pulls.keep_only(held)
        self._nodes = {name: known for name, known in self._nodes.items() if name in held}
        self._read_nodes(held)
        self._begin_pulls(policies, held)
        failed = self._pulls.problems()
        self.problem = None if not failed else _problem_text(failed)

    def _held(self, policies: Sequence[WarmPolicy]) -> Counter[str]:
        """Return how many placeholders nodes hold; a node belongs to one policy."""
        held: Counter[str] = Counter()
        for each in policies:
            held.update(each.nodes)
        return held

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
                self._pulls.done(node, now)
                self._nodes.pop(node, None)
            elif node is not None:
                self._pulls.failed(node, pod.reason or "stopped", now)
            self._cluster.delete(pod)
        for node in running.values():
            self._pulls.failed(node, "its pod was deleted", now)
        self._may_have_pods = bool(left)

    def _read_nodes(self, held: Counter[str]) -> None:
        """Read the nodes that were read longest ago, few a turn."""
        now = self._clock()
        stale = [name for name in held if name not in self._nodes or now - self._nodes[name][0] > FRESH_SECONDS / 2]
        stale.sort(key=lambda name: (self._nodes[name][0] if name in self._nodes else float("-inf"), -held[name], name))
        for name in stale[:NODES_A_TURN]:
            found = self._cluster.node(name)
            if found is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = now, found

    def _begin_pulls(self, policies: Sequence[WarmPolicy], held: Counter[str]) -> None:
        now = self._clock()
        fresh = {name: known for name, (at, known) in self._nodes.items() if now - at <= FRESH_SECONDS}
        sizes = {image: size for known in fresh.values() for image, size in known.images.items()}
        owner = {name: each for each in policies for name in each.nodes}
        nodes = [
            WarmNode(
                name=name,
                placeholders=held[name],
                images=known.images,
                used_bytes=known.used_bytes,
                disk_bytes=known.disk_bytes,
                pressure=known.pressure,
                architecture=known.architecture,
                max_bytes=owner[name].warm.max_bytes_per_node,
                wanted=owner[name].wanted,
            )
            for name, known in fresh.items()
            if known.architecture in ARCHITECTURES
        ]
        orders = self._pulls.choose(nodes, sizes, self._limits, now)
        if orders and not self._has_program:
            self._cluster.write_program()
            self._has_program = True
        for order in orders:
            own = owner[order.node]
            pod = warm_pod(
                order,
                fresh[order.node].uid,
                namespace=self._namespace,
                priority_class_name=own.policy.spec.priority_class_name,
                pull_secrets=tuple(secret.name for secret in own.warm.image_pull_secrets),
                user=self._user,
                extras=own.policy.spec.placeholders.added_to(self._extras),
            )
            try:
                self._cluster.create(pod)
            except KubeError as error:
                self._pulls.failed(order.node, str(error), now)
                raise
            self._may_have_pods = True


def _problem_text(failed: Sequence[tuple[str, str, int]]) -> str:
    image, reason, count = failed[0]
    more = f"; {len(failed) - 1} more images" if len(failed) > 1 else ""
    return f"image {image} is not pulled on {count} nodes: {reason}{more}"
