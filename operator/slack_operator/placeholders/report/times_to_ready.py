"""How long real pods take until they are Ready, by policy and by workload. Owned by the planning loop.

Single pods are not kept: each is folded into the sketch of its policy and that of its workload, of which the 1,000 that
started last are kept.
"""

from collections.abc import Container, Iterable, Mapping

from slack.cluster.snapshot import Workload
from slack.cluster.start_sketch import ReadyFigures, ReadySketch, bytes_text, seconds_text
from slack.documents.slackpolicy_status import StatusTimeToReady, StatusWorkloadStarts
from slack_operator.placeholders.view.ready_starts import ReadyStart

MAX_WORKLOADS = 1000
MAX_SHOWN = 5


class TimesToReady:
    """Sketches, fed with the pods that have become Ready."""

    def __init__(self) -> None:
        self._policies: dict[str, ReadySketch] = {}
        self._workloads: dict[tuple[str, Workload], ReadySketch] = {}
        """By policy and workload, in the order of their latest starts."""

    def add_starts(
        self, starts: Iterable[ReadyStart], policy_of_node: Mapping[str, str]
    ) -> list[tuple[str, ReadyStart]]:
        """Fold starts in; returns them with their policies, without those on nodes that no policy has."""
        counted = []
        for found in starts:
            policy = policy_of_node.get(found.start.node)
            if policy is None:
                continue
            key = policy, found.start.workload
            sketch = self._workloads.pop(key, None) or ReadySketch()
            self._workloads[key] = sketch
            for each in (sketch, self._policies.setdefault(policy, ReadySketch())):
                each.add_start(
                    found.start.at,
                    bound_seconds=found.start.waited_seconds,
                    image_seconds=found.image_seconds,
                    started_seconds=found.started_seconds,
                    ready_seconds=found.ready_seconds,
                    pull_seconds=found.pull_seconds,
                    pulled_bytes=found.pulled_bytes,
                )
            counted.append((policy, found))
        while len(self._workloads) > MAX_WORKLOADS:
            del self._workloads[next(iter(self._workloads))]
        return counted

    def keep_only(self, policies: Container[str]) -> None:
        """Forget policies that are no more."""
        self._policies = {name: sketch for name, sketch in self._policies.items() if name in policies}
        self._workloads = {key: sketch for key, sketch in self._workloads.items() if key[0] in policies}

    def figures_of(self, policy: str) -> ReadyFigures | None:
        """Return the figures of a policy; None before the first pod."""
        sketch = self._policies.get(policy)
        return None if sketch is None else sketch.figures()

    def slowest(self, policy: str, most: int = MAX_SHOWN) -> list[tuple[Workload, ReadyFigures]]:
        """Return the workloads of a policy whose pods take longest, by p99, then by name."""
        found = [
            (workload, figures)
            for (name, workload), sketch in self._workloads.items()
            if name == policy and (figures := sketch.figures()) is not None
        ]
        return sorted(found, key=lambda pair: (-pair[1].ready_p99_seconds, str(pair[0])))[:most]

    def status(self, policy: str) -> StatusTimeToReady | None:
        """Return what stands in the status of a policy; None before the first pod."""
        figures = self.figures_of(policy)
        if figures is None:
            return None
        p50, p99 = _short(figures.ready_p50_seconds), _short(figures.ready_p99_seconds)
        return StatusTimeToReady(
            pods=figures.pods,
            p50=p50,
            p99=p99,
            summary=f"{p50}/{p99}",
            text=str(figures),
            workloads=[_workload_starts(workload, own) for workload, own in self.slowest(policy)],
        )


def _workload_starts(workload: Workload, figures: ReadyFigures) -> StatusWorkloadStarts:
    return StatusWorkloadStarts(
        workload=str(workload),
        pods=figures.pods,
        bound=_short(figures.bound_seconds),
        image=None if figures.image_seconds is None else _short(figures.image_seconds),
        started=_short(figures.started_seconds),
        ready=_short(figures.ready_seconds),
        p99=_short(figures.ready_p99_seconds),
        pulled=bytes_text(figures.pulled_bytes) if figures.pulled_bytes else None,
    )


def _short(seconds: float) -> str:
    return seconds_text(seconds).replace(" ", "")
