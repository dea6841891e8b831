"""Which image is pulled on which node next. Pure; `WarmPulls` is owned by one thread.

The order is:
1. nodes by how many placeholders they hold, the most first; then by name
2. on each node the images that its policy wants, the largest first; an image of unknown size counts as 1 GiB
Nothing is pulled that is there by name or digest, whose node is short of disk, or that failed lately. Nodes and bytes
per second are limited for the whole cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.cluster.image_names import full_name
from slack.planner.warm.images import KnownImages, WantedImage, digests_of

DISK_SHARE = 0.6
"""Of a node's disk, all images together at most. A kubelet collects images from 85 % on, and pods write files too."""
FIRST_RETRY_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 6 * 3600.0
LISTED_SECONDS = 120.0
"""A kubelet lists an image this late at most after its pull: it looks every 30 s, and writes its status every 10 s."""
COLLECTED_SECONDS = 3600.0
"""An image that was collected within this time of its pull waits longer each time: its node lacks disk."""
COLLECTED = "Collected"
DISK_SHORT = "DiskShort"
_OTHER = "Other"


@dataclass(frozen=True, slots=True)
class WarmNode:
    """What a node's status says, and how many placeholders have their capacity there."""

    name: str
    placeholders: int
    images: Mapping[str, int]
    """By full name, tags and digests alike: bytes."""
    used_bytes: int
    """Of all images that the status lists."""
    disk_bytes: int
    """Its ephemeral storage."""
    pressure: bool
    """DiskPressure, or a condition that is not known."""
    architecture: str
    max_bytes: int
    """What the policy allows to be pulled there."""
    wanted: Sequence[WantedImage]
    lists_all: bool = True
    """Whether the status lists all images. A kubelet lists 50, the largest first."""


@dataclass(frozen=True, slots=True)
class WarmLimits:
    """For the whole cluster."""

    nodes_at_once: int = 4
    bytes_per_second: int = 200_000_000


@dataclass(frozen=True, slots=True)
class ImagePullOrder:
    """One image to be pulled on one node."""

    node: str
    image: str
    workload: str
    size_bytes: int
    architecture: str


@dataclass(frozen=True, slots=True)
class PullProblem:
    """An image that a node does not have, and why."""

    node: str
    image: str
    reason: str
    """One word: the kubelet's, or one of this module."""
    message: str


@dataclass(slots=True)
class _Pulled:
    at: float
    size_bytes: int
    digest: str
    was_listed: bool = False
    """Whether the kubelet has listed it since: it is there, and was collected once it is listed no more."""


@dataclass(slots=True)
class _Failure:
    reason: str
    message: str
    tries: int
    until: float


@dataclass(slots=True)
class WarmPulls:
    """Pulls that go on, that are done, and that failed."""

    running: dict[str, ImagePullOrder] = field(default_factory=dict)
    """By node."""
    _pulled: dict[str, dict[str, _Pulled]] = field(default_factory=dict)
    """By node and full name."""
    _failures: dict[str, dict[str, _Failure]] = field(default_factory=dict)
    """By node and full name."""
    _short: dict[str, PullProblem] = field(default_factory=dict)
    """By node: the largest image that its disk or the policy has no space for."""
    _budget_bytes: float = 0.0
    _budget_at: float | None = None

    def choose(
        self, nodes: Iterable[WarmNode], known: KnownImages, limits: WarmLimits, now: float
    ) -> list[ImagePullOrder]:
        """Return what is to be pulled now, and count it as begun.

        Args:
            nodes: that hold placeholders of policies which warm, and were read lately.
            known: sizes and digests of images, as any node has them.
            limits: of the cluster.
            now: monotonic seconds.
        """
        self._refill(limits, now)
        chosen: list[ImagePullOrder] = []
        for node in sorted(nodes, key=lambda node: (-node.placeholders, node.name)):
            if node.name in self.running:
                continue
            self._see(node, known, now)
            order = self._next(node, known, now)
            if order is None or len(self.running) >= limits.nodes_at_once or self._budget_bytes <= 0:
                continue
            self.running[node.name] = order
            self._budget_bytes -= order.size_bytes
            chosen.append(order)
        return chosen

    def end_pull(self, node: str, known: KnownImages, now: float) -> ImagePullOrder | None:
        """A pull has ended well; return it."""
        order = self.running.pop(node, None)
        if order is not None:
            name = full_name(order.image)
            self._pulled.setdefault(node, {})[name] = _Pulled(now, order.size_bytes, known.digest(name))
            self._forget_failure(node, name)
        return order

    def fail_pull(self, node: str, reason: str, message: str, now: float) -> float:
        """A pull has failed; return after how many seconds it is tried again.

        Args:
            node: where.
            reason: one word.
            message: for people.
            now: monotonic seconds.
        """
        order = self.running.pop(node, None)
        if order is None:
            return 0.0
        return self._back_off(node, full_name(order.image), reason, message, now)

    def problems(self) -> list[PullProblem]:
        """Return the images that nodes do not have, and why."""
        found = [
            PullProblem(node, image, failure.reason, failure.message)
            for node, failures in self._failures.items()
            for image, failure in failures.items()
            if image not in self._pulled.get(node, ())
        ]
        return found + list(self._short.values())

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget nodes that hold no placeholders any more."""
        known = set(nodes)
        for kept in (self._pulled, self._failures, self._short):
            for gone in kept.keys() - known:
                del kept[gone]

    def _refill(self, limits: WarmLimits, now: float) -> None:
        """Let bytes be pulled that time has made up for; what was not used of a minute is not saved up."""
        before = now if self._budget_at is None else self._budget_at
        most = 60.0 * limits.bytes_per_second
        first = limits.bytes_per_second if self._budget_at is None else 0
        self._budget_bytes = min(most, self._budget_bytes + first + (now - before) * limits.bytes_per_second)
        self._budget_at = now

    def _see(self, node: WarmNode, known: KnownImages, now: float) -> None:
        """Find images that have come by themselves, and those that the kubelet has collected."""
        there, wanted = digests_of(node.images), {full_name(image.name) for image in node.wanted}
        for name, failure in list(self._failures.get(node.name, {}).items()):
            if name not in wanted:
                del self._failures[node.name][name]
            elif _is_there(name, node, there, known) and failure.reason != COLLECTED:
                self._forget_failure(node.name, name)
        pulled = self._pulled.get(node.name, {})
        for name, pull in list(pulled.items()):
            age = now - pull.at
            if _is_there(name, node, there, known):
                pull.was_listed = True
                if age > COLLECTED_SECONDS:
                    self._forget_failure(node.name, name, also_collected=True)
                continue
            if (age <= LISTED_SECONDS and not pull.was_listed) or not node.lists_all:
                continue
            del pulled[name]
            if age <= COLLECTED_SECONDS:
                self._back_off(node.name, name, COLLECTED, "the kubelet has collected it: its disk is short", now)

    def _forget_failure(self, node: str, name: str, *, also_collected: bool = False) -> None:
        failures = self._failures.get(node, {})
        failure = failures.get(name)
        if failure is not None and (also_collected or failure.reason != COLLECTED):
            del failures[name]

    def _back_off(self, node: str, name: str, reason: str, message: str, now: float) -> float:
        failures = self._failures.setdefault(node, {})
        before = failures.get(name)
        tries = 1 if before is None else before.tries + 1
        seconds = min(FIRST_RETRY_SECONDS * 2.0 ** (min(tries, 20) - 1), LONGEST_RETRY_SECONDS)
        failures[name] = _Failure(reason or _OTHER, message, tries, now + seconds)
        return seconds

    def _next(self, node: WarmNode, known: KnownImages, now: float) -> ImagePullOrder | None:
        self._short.pop(node.name, None)
        if not node.wanted:
            return None
        there, pulled = digests_of(node.images), self._pulled.get(node.name, {})
        there |= {pull.digest for pull in pulled.values() if pull.digest}
        unlisted = sum(pull.size_bytes for name, pull in pulled.items() if name not in node.images)
        used = node.used_bytes + unlisted
        wanted = {full_name(image.name) for image in node.wanted}
        ours = sum(pull.size_bytes for name, pull in pulled.items() if name in wanted)
        failures = self._failures.get(node.name, {})
        for image in sorted(node.wanted, key=lambda image: (-known.size(image.name), image.name)):
            name, size = full_name(image.name), known.size(image.name)
            if name in pulled or _is_there(name, node, there, known):
                continue
            if (why := _no_space(node, used, ours, size)) is not None:
                self._short.setdefault(node.name, PullProblem(node.name, name, DISK_SHORT, why))
                continue
            failure = failures.get(name)
            if failure is None or failure.until <= now:
                return ImagePullOrder(node.name, image.name, image.workload, size, node.architecture)
        return None


def _no_space(node: WarmNode, used_bytes: int, pulled_bytes: int, size_bytes: int) -> str | None:
    """Say why an image of a size is not pulled on a node; None if it may be."""
    if node.pressure:
        return "the node has DiskPressure"
    if node.disk_bytes <= 0:
        return "the node does not report its ephemeral storage"
    if used_bytes + size_bytes > DISK_SHARE * node.disk_bytes:
        return f"images would take more than {DISK_SHARE:.0%} of the node's disk"
    if pulled_bytes + size_bytes > node.max_bytes:
        return "spec.warm.maxBytesPerNode has no space for it"
    return None


def _is_there(name: str, node: WarmNode, digests: set[str], known: KnownImages) -> bool:
    """Whether a node has an image: under this name, or the same bytes under another."""
    return name in node.images or known.digest(name) in digests
