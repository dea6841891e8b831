"""Bytes that warm nodes pull in a week with rollouts, beside the bytes of the pods that start.

Usage:
    python -m benchmarks.warm_nodes                      # a week of 20 workloads, by share of slack
    python -m benchmarks.warm_nodes --days 1 --rollouts 5

A model of a cluster decides where pods go, and `slack.planner.warm` what is pulled, as in the operator:
1. Load rises and falls each day. An autoscaler keeps as many nodes as pods and slack need; a new node has no image.
2. Slack is a share of the pods, and has its capacity on the nodes with the most free capacity. A pod goes to a node
   with slack.
3. A rollout replaces all pods of a workload with ones of a new image, one a minute. Each workload has some a week.
4. Registry and network give each node 100 MB a second; kubelets collect the oldest unused images at 85 % of the disk.
Layers that images share are not modelled: with them every figure of bytes is smaller.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.report import Report, Row, parser, say, show
from slack.planner.warm.choice import WarmLimits, WarmNode, WarmPulls
from slack.planner.warm.images import KnownImages, WantedImage, wanted_images

SLOTS = 12
"""Pods of a node."""
PODS_AT_NOON = 600
WORKLOADS = 20
DISK_BYTES = 200 * 10**9
MAX_BYTES = 30 << 30
NODE_BYTES_PER_SECOND = 100_000_000
HIGH, LOW = 0.85, 0.80
"""From where on a kubelet collects images, and until when."""
ARRIVALS_DAYS = 1
DEFAULT_SHARE, LOW_SHARE = 0.05, 0.01
TARGET = 1.5
GB = 10**9
MINUTE_SECONDS = 60


@dataclass
class Node:
    """One node: its pods by workload, and its images with the minute of their last use."""

    name: str
    pods: list[tuple[int, str]] = field(default_factory=list)
    """Workload and image."""
    images: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size, and last use."""
    empty_since: int | None = None

    @property
    def free(self) -> int:
        """Return how many pods still fit."""
        return SLOTS - len(self.pods)

    def keep(self, image: str, size: int, now: int) -> None:
        """Have an image, and collect others if the disk is short."""
        self.images[image] = size, now
        used = sum(size for size, _ in self.images.values())
        if used <= HIGH * DISK_BYTES:
            return
        running = {image for _, image in self.pods}
        for old in sorted(self.images, key=lambda name: self.images[name][1]):
            if used <= LOW * DISK_BYTES:
                return
            if old not in running and old != image:
                used -= self.images.pop(old)[0]


@dataclass
class Outcome:
    """What a week came to."""

    starts: int = 0
    waited: int = 0
    """Pods whose image was not there."""
    started_bytes: int = 0
    """Sizes of the images of all pods that started."""
    pod_bytes: int = 0
    """Pulled for a pod that waited."""
    warm_bytes: int = 0


class Cluster:
    """The model."""

    def __init__(self, seed: int, *, slack: float, warm: bool, least_share: float, rollouts: int, days: int) -> None:
        self.chance = random.Random(seed)
        self.slack, self.warm, self.least_share = slack, warm, least_share
        self.sizes = [int(self.chance.uniform(0.2, 4.0) * GB) for _ in range(WORKLOADS)]
        weights = [1 / (rank + 1) for rank in range(WORKLOADS)]
        self.shares = [weight / sum(weights) for weight in weights]
        self.version = [0] * WORKLOADS
        self.nodes: list[Node] = []
        self.made = 0
        self.out = Outcome()
        self.pulls, self.ends = WarmPulls(), dict[str, tuple[int, str, int]]()
        self.arrivals: list[Counter[int]] = [Counter() for _ in range(ARRIVALS_DAYS * 24)]
        self.days = days
        begins = [(self.chance.randrange(days * 1440), work) for work in range(WORKLOADS) for _ in range(rollouts)]
        self.rollouts = sorted(begins)

    def image(self, work: int) -> str:
        """Return the newest image of a workload."""
        return f"r.example.com/app{work}:{self.version[work]}"

    def run(self) -> Outcome:
        """Play all minutes."""
        for now in range(self.days * 1440):
            if now % 60 == 0:
                self.arrivals = [*self.arrivals[1:], Counter()]
            self._follow_load(now)
            self._roll(now)
            self._scale_nodes(now)
            if self.warm:
                self._warm(now)
        return self.out

    def _wanted(self, now: int, work: int) -> int:
        day = 0.7 + 0.3 * math.sin(2 * math.pi * (now / 1440 - 0.25))
        return max(1, round(PODS_AT_NOON * day * self.shares[work]))

    def _follow_load(self, now: int) -> None:
        counts = Counter(work for node in self.nodes for work, _ in node.pods)
        for work in range(WORKLOADS):
            missing = self._wanted(now, work) - counts[work]
            for _ in range(max(0, missing)):
                self._start(now, work)
            for _ in range(max(0, -missing)):
                self._stop(work)

    def _roll(self, now: int) -> None:
        while self.rollouts and self.rollouts[0][0] <= now:
            self.version[self.rollouts.pop(0)[1]] += 1
        for work in range(WORKLOADS):
            image = self.image(work)
            old = next((n for n in self.nodes if any(w == work and i != image for w, i in n.pods)), None)
            if old is not None:
                old.pods.remove(next(pod for pod in old.pods if pod[0] == work and pod[1] != image))
                self._start(now, work)

    def _start(self, now: int, work: int) -> None:
        fits = [node for node in self.nodes if node.free]
        node = max(fits, key=lambda node: (node.free, node.name)) if fits else self._add_node()
        image, size = self.image(work), self.sizes[work]
        self.arrivals[-1][work] += 1
        self.out.starts += 1
        self.out.started_bytes += size
        if image not in node.images:
            self.out.waited += 1
            self.out.pod_bytes += size
        node.pods.append((work, image))
        node.keep(image, size, now)

    def _stop(self, work: int) -> None:
        node = self.chance.choice([node for node in self.nodes if any(pod[0] == work for pod in node.pods)])
        node.pods.remove(next(pod for pod in node.pods if pod[0] == work))

    def _add_node(self) -> Node:
        self.made += 1
        self.nodes.append(Node(f"n{self.made:05}"))
        return self.nodes[-1]

    def _held(self) -> int:
        return math.ceil(self.slack * sum(len(node.pods) for node in self.nodes))

    def _scale_nodes(self, now: int) -> None:
        """Add nodes for slack, and take away those that were empty for ten minutes, where slack does not need them."""
        while sum(node.free for node in self.nodes) < self._held():
            self._add_node()
        for node in list(self.nodes):
            spare = sum(other.free for other in self.nodes) - node.free >= self._held()
            # The autoscaler moves the pods of a node that is less than half full.
            if len(node.pods) <= SLOTS // 2 and spare:
                node.empty_since = now if node.empty_since is None else node.empty_since
                room = sum(other.free for other in self.nodes if other is not node) - self._held()
                if now - node.empty_since >= 10 and room >= len(node.pods):
                    self.nodes.remove(node)
                    for work, _ in node.pods:
                        self._start(now, work)
            else:
                node.empty_since = None

    def _slack_nodes(self) -> Iterator[tuple[Node, int]]:
        held = self._held()
        for node in sorted(self.nodes, key=lambda node: (-node.free, node.name)):
            if held <= 0 or not node.free:
                return
            yield node, min(held, node.free)
            held -= node.free

    def _warm(self, now: int) -> None:
        seconds = float(now * MINUTE_SECONDS)
        by_name = {node.name: node for node in self.nodes}
        known = KnownImages({self.image(work): self.sizes[work] for work in range(WORKLOADS)})
        for name, (minute, image, size) in list(self.ends.items()):
            if minute <= now:
                del self.ends[name]
                self.pulls.end_pull(name, known, seconds)
                if name in by_name:
                    by_name[name].keep(image, size, now)
        wanted = self._images()
        nodes = [
            WarmNode(
                name=node.name,
                placeholders=count,
                images={image: size for image, (size, _) in node.images.items()},
                used_bytes=sum(size for size, _ in node.images.values()),
                disk_bytes=DISK_BYTES,
                pressure=False,
                architecture="amd64",
                max_bytes=MAX_BYTES,
                wanted=wanted,
            )
            for node, count in self._slack_nodes()
        ]
        self.pulls.keep_only(by_name)
        for order in self.pulls.choose(nodes, known, WarmLimits(), seconds):
            minutes = math.ceil(order.size_bytes / NODE_BYTES_PER_SECOND / MINUTE_SECONDS)
            self.ends[order.node] = now + minutes, order.image, order.size_bytes
            self.out.warm_bytes += order.size_bytes

    def _images(self) -> list[WantedImage]:
        total: Counter[int] = Counter()
        for hour in self.arrivals:
            total.update(hour)
        names = {f"shop/deploy/app{work}": count for work, count in total.items()}
        images = {f"shop/deploy/app{work}": (self.image(work),) for work in range(WORKLOADS)}
        return wanted_images(names, images, least_share=self.least_share)


def row(slack: float, least_share: float, rollouts: int, days: int) -> Row:
    """Play a week with and without warming."""
    say(f"slack {slack:.0%}, minShare {least_share:g}")
    cold = Cluster(7, slack=slack, warm=False, least_share=least_share, rollouts=rollouts, days=days).run()
    warm = Cluster(7, slack=slack, warm=True, least_share=least_share, rollouts=rollouts, days=days).run()
    pulled = warm.pod_bytes + warm.warm_bytes
    return {
        "slack": f"{slack:.0%}",
        "minShare": f"{least_share:g}",
        "starts": warm.starts,
        "waited, cold %": f"{100 * cold.waited / cold.starts:.1f}",
        "waited, warm %": f"{100 * warm.waited / warm.starts:.1f}",
        "started GB": warm.started_bytes // GB,
        "pulled, cold GB": cold.pod_bytes // GB,
        "pulled, warm GB": pulled // GB,
        "to started ratio": pulled / warm.started_bytes,
        "to cold ratio": pulled / cold.pod_bytes,
    }


def main() -> None:
    """Play, and judge."""
    asked = parser("Bytes that warm nodes pull in a week with rollouts.")
    asked.add_argument("--days", type=int, default=7)
    asked.add_argument("--rollouts", type=int, default=5, help="of each workload, in all days together")
    asked.add_argument("--slack", type=float, nargs="+", default=[0.1, 0.05, 0.2], help="of the pods")
    options = asked.parse_args()
    chosen = [(slack, DEFAULT_SHARE) for slack in options.slack] + [(options.slack[0], LOW_SHARE)]
    rows = [row(slack, share, options.rollouts, options.days) for slack, share in chosen]
    worst = max(float(str(each["to started ratio"])) for each in rows if each["minShare"] == f"{DEFAULT_SHARE:g}")
    verdict = "met" if worst <= TARGET else "NOT met"
    note = f"target, at the default minShare: pulled at most {TARGET} of the bytes of started pods, {verdict}"
    title = f"{options.days} days of {WORKLOADS} workloads, {options.rollouts} rollouts each"
    show([Report(title, rows, [note])], options.output)


if __name__ == "__main__":
    main()
