"""`make demo-cluster`: the main job on a real control plane, told as a timeline.

Real etcd, API server, scheduler, controller manager and Karpenter; only the nodes' kubelets are played by kwok. The
operator recognises Karpenter, so its placeholders are unbound: they are Pending on purpose, and their capacity is free.
Nothing is left behind: the cluster lives in a folder of its own and ends with this program.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.harness.objects import deployment, is_running, nodes, pods, scale, wait_for_running, wait_until
from e2e.harness.pod_times import percentile
from e2e.harness.product.operator import (
    NAMESPACE,
    POLICIES,
    Operator,
    binding_seconds,
    placeholders,
    policy,
    replica_sets,
    status,
    wait_until_placed,
)
from slack.cluster.labels import LABEL_HOLD

BOOT_SECONDS = 8
BURST = 2
AT_ONCE_SECONDS = 2.0
"""As the operator counts it."""
_LEAST_RATIO = 1.5
console = Console(highlight=False, soft_wrap=True)


class Timeline:
    """Prints what happened and when, with the state of the cluster beside it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line."""
        reserved, waiting = _slack(self._api)
        real = [pod for pod in pods(self._api, "default") if is_running(pod)]
        slack = f"slack {reserved} reserved, {waiting} waiting"
        state = f"nodes {len(nodes(self._api))}  pods {len(real):2}  {slack}"
        console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {text:<66} [dim]{state}[/dim]")


def _slack(api: Api) -> tuple[int, int]:
    """Return for how many placeholders there is capacity, and how many wait for it, as the policy's status says."""
    found = api.find(f"{POLICIES}/default") or {}
    shapes = (found.get("status") or {}).get("shapes") or []
    return sum(shape["bound"] for shape in shapes), sum(shape["pending"] for shape in shapes)


def _measure(api: Api, name: str, replicas: int) -> list[float]:
    have = len(pods(api, "default", labelSelector=f"app={name}"))
    return binding_seconds(api, lambda: scale(api, name, replicas), replicas - have, 60, name)


def _times(values: list[float]) -> str:
    return f"p50 {percentile(values, 50):.2f} s, p99 {percentile(values, 99):.2f} s"


def told_placeholders(rate: float, made: int, waiting: int) -> str:
    """Say what a policy has made, and whether there is room for it."""
    what = f"a SlackPolicy of {rate * 100:g} % makes {_counted(made, 'placeholder')}"
    if not waiting:
        return f"{what}; there is room for all of them"
    return f"{what}; for {waiting} there is no node yet" if waiting < made else f"{what}; there is no node for them yet"


def told_form(made: Sequence[Json]) -> str:
    """Say which form placeholders have."""
    bound = sum(LABEL_HOLD not in pod["metadata"]["labels"] for pod in made)
    if bound:
        return f"{bound} of {len(made)} placeholders are bound to nodes"
    return "they are unbound: Pending on purpose, and their capacity is free"


def told_whole(added: int) -> str:
    """Say how the slack became whole."""
    how = f"the autoscaler added {_counted(added, 'node')}" if added > 0 else "no node was added"
    return f"{how}: slack is whole"


def told_burst(seconds: list[float]) -> str:
    """Say how many of a burst found their room, by what was measured."""
    at_once = sum(value <= AT_ONCE_SECONDS for value in seconds)
    return f"a burst: {at_once} of {len(seconds)} pods were bound within {AT_ONCE_SECONDS:g} s ({_times(seconds)})"


def told_refill(new: int, kept: int) -> str:
    """Say what became of the placeholders."""
    if not new:
        return f"none had to leave: {kept} placeholders never moved"
    return f"refilled: {_counted(new, 'placeholder')} new, {kept} never moved"


def told_ratio(late: list[float], instant: list[float]) -> str:
    """Compare the two bursts; one that was no sooner is told as such."""
    before, after = percentile(late, 50), percentile(instant, 50)
    if after >= before / _LEAST_RATIO:
        return f"With slack pods were not bound sooner: p50 {after:.2f} s, without it {before:.2f} s."
    return f"With slack pods were bound {before / max(after, 0.001):.0f} times sooner."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


@contextmanager
def _cluster() -> Iterator[ControlPlane]:
    with tempfile.TemporaryDirectory(prefix="resource-slack-demo-") as folder:
        console.print("starting etcd, API server, scheduler, controller manager, kwok and Karpenter ...")
        with ControlPlane(Path(folder)) as cluster:
            yield cluster


def play(cluster: ControlPlane, operator: Operator, line: Timeline) -> None:
    """Play the main job: burst, preemption, refill, new node, load gone, nodes gone."""
    api = cluster.api
    api.create(deployment("shop", 10, cpu="700m", memory="1Gi"))
    wait_for_running(api, 10, 90)
    line.say("ten pods of 700m run; Karpenter brought the nodes")
    late = _measure(api, "shop", 10 + BURST)
    wait_for_running(api, 10 + BURST, 60)
    line.say(f"without slack {BURST} more pods are bound after {_times(late)}")

    operator.start()
    operator.wait_until_ready()
    slack = {"minRate": 0.25}
    api.create(policy("default", extraCapacity=slack, stabilization={"shrinkDelay": "5s", "giveUpAfter": "5m"}))
    before_nodes = len(nodes(api))
    wait_until(lambda: any(_slack(api)), 30, "placeholders")
    reserved, waiting = _slack(api)
    line.say(told_placeholders(slack["minRate"], reserved + waiting, waiting))
    line.say(told_form(placeholders(api)))
    wait_until_placed(api, "default", 60)
    line.say(told_whole(len(nodes(api)) - before_nodes))

    before = {pod["metadata"]["uid"] for pod in placeholders(api)}
    instant = _measure(api, "shop", 10 + 2 * BURST)
    line.say(told_burst(instant))
    wait_until_placed(api, "default", 60)
    after = {pod["metadata"]["uid"] for pod in placeholders(api)}
    line.say(told_refill(len(after - before), len(after & before)))

    scale(api, "shop", 0)
    line.say("the load goes")
    wait_until(lambda: not placeholders(api), 60, "slack to shrink to its floor", state=lambda: status(api, "default"))
    line.say("slack shrinks to its floor after the shrink delay")
    wait_until(lambda: not nodes(api), 120, "the nodes to go")
    line.say("the nodes are gone too")
    console.print(f"\n[bold]{told_ratio(late, instant)}[/bold]")
    console.print(
        f"ReplicaSets left in {NAMESPACE}: {len(replica_sets(api))}. Next: docs/ and examples/slackpolicy.yaml."
    )


def main() -> int:
    """Run the demo; 1 when it did not go as told."""
    try:
        with _cluster() as cluster, Karpenter(cluster) as karpenter:
            karpenter.add_pool("default", boot_seconds=BOOT_SECONDS)
            operator = Operator(cluster)
            try:
                play(cluster, operator, Timeline(cluster.api))
            finally:
                if operator.program.running:
                    operator.stop()
    except HarnessError as error:
        console.print(f"[red]the demo stopped:[/red] {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
