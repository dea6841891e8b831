"""What an engineer on call meets: each trouble played on the operator, and where each of its faces says what.

A scene is played for thirty-three simulated minutes; what Prometheus would have scraped is kept, so that the real rules
can be asked for alerts (`e2e/suites/test_monitoring.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slack.kube.errors import ApiError
from slack_operator.placeholders.view.hangs import Hang
from tests.operator.fakes import pod, policy
from tests.operator.placeholders.test_kstatus import Cluster

STEP_SECONDS = 30.0
STEPS = 66
LABELS = {"job": "resource-slack", "namespace": "resource-slack", "instance": "10.0.0.1:8080"}
STARTED = 1_800_000_000.0
"""The scenes' clock; Prometheus' tests begin at zero."""


@dataclass(frozen=True)
class Scene:
    """A trouble, and what everybody is to say of it."""

    name: str
    begin: Callable[[Cluster], None]
    state: str
    """The reason in `kubectl get`, `status` and on the page."""
    alert: str | None
    """The one alert that fires; None where nobody is to be woken."""
    within_seconds: float
    """From the trouble to the word."""
    each_turn: Callable[[Cluster], None] = lambda _world: None
    alarmed_seconds: float = STEPS * STEP_SECONDS
    """From the trouble to when the alerts are looked at: sooner where another trouble would follow from it."""


def _full(world: Cluster) -> None:
    world.full = True
    world.lose(2)


def _at_maximum(world: Cluster) -> None:
    world.say("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")


def _hang(world: Cluster) -> None:
    path = "/api/v1/namespaces/shop/pods/hangs"
    world.api.put(path, pod("hangs", nominatedNodeName="n1"))
    world.api.refuse = lambda _verb, asked: ApiError(403, "Forbidden", "no") if "hangs" in asked else None
    metadata = world.api.objects[path]["metadata"]
    hang = Hang("shop", "hangs", metadata["uid"], metadata["resourceVersion"], "n1", 0.0)
    world.view.hangs = lambda now, scheduler_of: [hang]  # type: ignore[method-assign]


def _lose_leader(world: Cluster) -> None:
    world.leading = False


def _lose_view(world: Cluster) -> None:
    world.fresh.text = "pods: the watch has been silent for 200 s"


def _refuse(world: Cluster) -> None:
    refused = ApiError(403, "Forbidden", "admission webhook says no")
    world.api.refuse = lambda _verb, path: refused if "/replicasets/" in path else None
    world.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.8}))


def _wrong_time(world: Cluster) -> None:
    windows = [{"cron": "0 8 * * 1-5", "duration": "2h", "timeZone": "Europe/Nowhere", "minRate": 0.6}]
    world.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.4, "schedule": windows}))


def _large_rate(world: Cluster) -> None:
    world.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.6}))


def _wrong_rate(world: Cluster) -> None:
    """Meant as ten percent; the API server lets it in, for it has a ceiling."""
    world.full = True
    ceiling = {"cpu": "1000", "memory": "4Ti"}
    world.apply_policy(policy("web", 2, extraCapacity={"minRate": 10, "ceiling": ceiling}))


def _wrong_floor(world: Cluster) -> None:
    """Meant as 500m."""
    world.full = True
    world.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.4, "floor": {"cpu": "500"}}))


def _scale_up(world: Cluster) -> None:
    world.say("TriggeredScaleUp", "pod triggered scale-up: [{general 1->9 (max: 900)}]")


def _nothing(_world: Cluster) -> None:
    """Slack is as it was."""


SCENES = (
    Scene("all is well", _nothing, "Reserved", None, 0.0),
    Scene("a burst took the room, and it comes back", lambda world: world.lose(2), "Reserved", None, 60.0),
    Scene(
        "capped by the ceiling",
        lambda world: world.apply_policy(policy("web", 2, extraCapacity={"minRate": 0.4, "ceiling": {"cpu": "2"}})),
        "CeilingReached",
        None,
        60.0,
    ),
    Scene("the autoscaler is gone", _full, "NoWord", "ResourceSlackAutoscalerIgnoresPlaceholders", 180.0),
    Scene(
        "the node group is at its maximum",
        _full,
        "AutoscalerLimit",
        "ResourceSlackLimitReached",
        480.0,
        each_turn=_at_maximum,
    ),
    Scene("a stuck preemption", _hang, "RescueFailed", "ResourceSlackPreemptionStuck", 60.0),
    Scene("a lost leader", _lose_leader, "OperatorAbsent", "ResourceSlackNotLeading", 15.0),
    Scene("a stale view", _lose_view, "NotWhole", "ResourceSlackPlanStale", 60.0),
    Scene("a refused write", _refuse, "WriteRefused", "ResourceSlackPolicyNotReady", 60.0),
    Scene("a spec that only the operator can judge", _wrong_time, "InvalidSpec", "ResourceSlackPolicyNotReady", 60.0),
    Scene("a rate above half, as it may be meant", _large_rate, "Reserved", None, 60.0),
    Scene(
        "a wrong rate",
        _wrong_rate,
        "MoreThanDoubles",
        "ResourceSlackMoreThanDoubles",
        60.0,
        each_turn=_scale_up,
        alarmed_seconds=240.0,
    ),
    Scene(
        "a floor in the wrong unit",
        _wrong_floor,
        "MoreThanDoubles",
        "ResourceSlackMoreThanDoubles",
        60.0,
        each_turn=_scale_up,
        alarmed_seconds=240.0,
    ),
)


def begun() -> Cluster:
    """A cluster whose slack is all there."""
    world = Cluster()
    world.apply_policy(policy("web", extraCapacity={"minRate": 0.4}, stabilization={"shrinkDelay": "20s"}))
    world.settle()
    return world


def play(scene: Scene, world: Cluster, steps: int, after: Callable[[Cluster], None] = lambda _world: None) -> None:
    """Let the trouble come, and time pass; `after` is called at the end of each step."""
    scene.begin(world)
    for _ in range(steps):
        scene.each_turn(world)
        world.reconcile(seconds=STEP_SECONDS)
        world.loop.rescue()
        world.loop.publish_held()
        after(world)


class Scrapes:
    """What Prometheus would have scraped: values by series, `_` where there was none."""

    def __init__(self) -> None:
        self.series: dict[str, list[str]] = {}
        self._steps = 0

    def add(self, world: Cluster) -> None:
        """Scrape once."""
        for family in world.metrics.registry.collect():
            for sample in family.samples:
                labels = {**sample.labels, **LABELS}
                name = f"{sample.name}{{{', '.join(f'{key}={value!r}' for key, value in sorted(labels.items()))}}}"
                if name.startswith("python_") or "_created{" in name:
                    continue
                value = sample.value - STARTED if sample.name == "slack_plan_timestamp_seconds" else sample.value
                values = self.series.setdefault(name.replace("'", '"'), ["_"] * self._steps)
                values.append(f"{value:.12g}")
        self._steps += 1
        for values in self.series.values():
            values.extend(["_"] * (self._steps - len(values)))


def scraped(scene: Scene) -> dict[str, list[str]]:
    """Return what Prometheus would have scraped in thirty-three minutes: values by series, `_` where there was none."""
    world, scrapes = begun(), Scrapes()
    scrapes.add(world)
    play(scene, world, STEPS, scrapes.add)
    return scrapes.series


def promtool_tests(rules: list[str], alerts: list[str]) -> dict[str, Any]:
    """Return the file for `promtool test rules`: in each scene its one alert fires in the end, and no other."""
    tests = []
    for scene in SCENES:
        series = [{"series": name, "values": " ".join(values)} for name, values in scraped(scene).items()]
        expressions = [
            {
                "expr": f'count by (alertname) (ALERTS{{alertstate="firing", alertname=~"{"|".join(alerts)}"}})',
                "eval_time": f"{int(scene.alarmed_seconds)}s",
                "exp_samples": []
                if scene.alert is None
                else [{"labels": f'{{alertname="{scene.alert}"}}', "value": 1}],
            }
        ]
        tests.append(
            {
                "name": scene.name,
                "interval": f"{int(STEP_SECONDS)}s",
                "input_series": series,
                "promql_expr_test": expressions,
            }
        )
    return {"rule_files": rules, "evaluation_interval": "30s", "tests": tests}
