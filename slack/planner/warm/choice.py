"""Which image is pulled on which node next. Pure; `WarmPulls` is owned by one thread.

The order is:
1. nodes by how many placeholders they hold, the most first; then by name
2. on each node the images that its policies want, the largest first; an image of unknown size counts as 1 GiB
Nothing is pulled that is there, whose node is short of disk, or that failed lately; and never more at once than the
limits allow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.cluster.image_names import full_name

UNKNOWN_BYTES = 1 << 30
"""What an image counts as that no node has yet."""
DISK_SHARE = 0.6
"""Of a node's disk, all images together at most. A kubelet collects images from 85 % on, and pods write files too."""
FIRST_RETRY_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 6 * 3600.0
COLLECTED_SECONDS = 3600.0
"""An image that was pulled and is not there any more within this time was collected: its node lacks disk."""


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image of a workload that is likely to arrive."""

    name: str
    """As the pod has it."""
    workload: str
    share: float
    """Of the arrivals that the policy covers."""


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


@dataclass(slots=True)
class _Failure:
    reason: str
    tries: int
    until: float


@dataclass(slots=True)
class WarmPulls:
    """Pulls that go on, that are done, and that failed."""

    running: dict[str, ImagePullOrder] = field(default_factory=dict)
    """By node."""
    _pulled: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """By node and full name: when, and how large."""
    _failures: dict[tuple[str, str], _Failure] = field(default_factory=dict)
    _budget_bytes: float = 0.0
    _budget_at: float | None = None

    def choose(
        self, nodes: Iterable[WarmNode], sizes: Mapping[str, int], limits: WarmLimits, now: float
    ) -> list[ImagePullOrder]:
        """Return what is to be pulled now, and count it as begun.

        Args:
            nodes: that hold placeholders of policies which warm.
            sizes: bytes of images by full name, as any node has them.
            limits: of the cluster.
            now: monotonic seconds.
        """
        self._refill(limits, now)
        chosen: list[ImagePullOrder] = []
        for node in sorted(nodes, key=lambda node: (-node.placeholders, node.name)):
            if len(self.running) >= limits.nodes_at_once or self._budget_bytes <= 0:
                break
            if node.name in self.running:
                continue
            self._see(node, now)
            order = self._next(node, sizes, now)
            if order is not None:
                self.running[node.name] = order
                self._budget_bytes -= order.size_bytes
                chosen.append(order)
        return chosen

    def done(self, node: str, now: float) -> None:
        """A pull has ended well."""
        order = self.running.pop(node, None)
        if order is not None:
            key = node, full_name(order.image)
            self._pulled[key] = now, order.size_bytes
            self._failures.pop(key, None)

    def failed(self, node: str, reason: str, now: float) -> float:
        """A pull has failed; return after how many seconds it is tried again."""
        order = self.running.pop(node, None)
        if order is None:
            return 0.0
        return self._back_off((node, full_name(order.image)), reason, now)

    def problems(self) -> list[tuple[str, str, int]]:
        """Return images that cannot be pulled: name, reason and on how many nodes; the most nodes first."""
        counts: dict[tuple[str, str], int] = {}
        for (_, image), failure in self._failures.items():
            counts[image, failure.reason] = counts.get((image, failure.reason), 0) + 1
        return sorted(
            ((image, reason, count) for (image, reason), count in counts.items()), key=lambda row: (-row[2], row)
        )

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget nodes that hold no placeholders any more."""
        known = set(nodes)
        self._pulled = {key: value for key, value in self._pulled.items() if key[0] in known}
        self._failures = {key: value for key, value in self._failures.items() if key[0] in known}

    def _refill(self, limits: WarmLimits, now: float) -> None:
        """Let bytes be pulled that time has made up for; what was not used of a minute is not saved up."""
        before = now if self._budget_at is None else self._budget_at
        most = 60.0 * limits.bytes_per_second
        first = limits.bytes_per_second if self._budget_at is None else 0
        self._budget_bytes = min(most, self._budget_bytes + first + (now - before) * limits.bytes_per_second)
        self._budget_at = now

    def _see(self, node: WarmNode, now: float) -> None:
        """Find images that the kubelet has collected: they wait longer each time."""
        for key in [key for key in self._pulled if key[0] == node.name and key[1] not in node.images]:
            at, _ = self._pulled.pop(key)
            if now - at <= COLLECTED_SECONDS:
                self._back_off(key, "the kubelet collected it", now)

    def _back_off(self, key: tuple[str, str], reason: str, now: float) -> float:
        before = self._failures.get(key)
        tries = 1 if before is None else before.tries + 1
        seconds = min(FIRST_RETRY_SECONDS * 2.0 ** (min(tries, 20) - 1), LONGEST_RETRY_SECONDS)
        self._failures[key] = _Failure(reason, tries, now + seconds)
        return seconds

    def _next(self, node: WarmNode, sizes: Mapping[str, int], now: float) -> ImagePullOrder | None:
        if node.pressure or node.disk_bytes <= 0:
            return None
        pulled = sum(size for (name, _), (_, size) in self._pulled.items() if name == node.name)
        for image in sorted(node.wanted, key=lambda image: (-_size_of(image, sizes), image.name)):
            name, size = full_name(image.name), _size_of(image, sizes)
            failure = self._failures.get((node.name, name))
            if name in node.images or (node.name, name) in self._pulled or (failure and failure.until > now):
                continue
            if pulled + size > node.max_bytes or node.used_bytes + size > DISK_SHARE * node.disk_bytes:
                continue
            return ImagePullOrder(node.name, image.name, image.workload, size, node.architecture)
        return None


def _size_of(image: WantedImage, sizes: Mapping[str, int]) -> int:
    return sizes.get(full_name(image.name)) or UNKNOWN_BYTES


def wanted_images(
    arrivals: Mapping[str, int],
    images_of: Mapping[str, Sequence[str]],
    *,
    least_share: float,
    named: Sequence[str] = (),
) -> list[WantedImage]:
    """Return the images of the workloads that are likely to arrive, each once, and those that a policy names.

    Args:
        arrivals: of the window, by workload; of workloads that the policy covers.
        images_of: of a workload's newest pod.
        least_share: of all arrivals; a workload with less is left out.
        named: by the policy.
    """
    total = sum(arrivals.values())
    found = {full_name(name): WantedImage(name, "", 1.0) for name in named}
    for workload, count in sorted(arrivals.items(), key=lambda pair: (-pair[1], pair[0])):
        if not total or count < least_share * total:
            break
        for name in images_of.get(workload, ()):
            found.setdefault(full_name(name), WantedImage(name, workload, count / total))
    return list(found.values())
