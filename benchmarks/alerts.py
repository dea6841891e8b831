"""`python -m benchmarks.alerts`: false alerts of a day with bursts, ceilings, restarts and a load that rises and falls.

The operator's loop runs in this process by a clock that is moved, against an API server in memory. Every half minute
what Prometheus would scrape is kept. Prometheus' own rule engine (`promtool test rules`) then evaluates the operator's
rules over the whole day. Nothing of such a day needs a person, so each alert that fires is a false one. A control of
forty minutes, in which no node has space and none comes, must fire: it shows that the day's alerts could have.
"""

import argparse
import json
import logging
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from math import pi, sin
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.harness import build
from slack.cli.monitoring import RULE_GROUPS, MonitoredComponent
from tests.operator.fakes import NAMESPACE, pod, policy
from tests.operator.on_call import STEP_SECONDS, Scrapes
from tests.operator.placeholders.test_kstatus import Cluster

DAY_HOURS: Final = 24.0
CONTROL_STEPS: Final = 80
PROMTOOL_SECONDS: Final = 1800.0
NODES: Final = 12
"""Of eight cores: there is space for all placeholders, but for a while after a burst."""
NODE_STEPS: Final = (2, 3, 4)
"""A node takes one to two minutes."""
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
SHOP: Final = "/api/v1/namespaces/shop/pods"
_GOT: Final = re.compile(r'alertname="(\w+)"[^}]*\}\s+([\d.eE+]+)')


@dataclass
class Happened:
    """What the day has brought."""

    bursts: int = 0
    ceilings: int = 0
    restarts: int = 0
    edits: int = 0


class Day:
    """A cluster with an autoscaler, and people who use it."""

    def __init__(self, seed: int) -> None:
        self.world = Cluster(nodes=NODES, pods=20)
        self.dice = random.Random(seed)
        self.happened = Happened()
        self._generation = 1
        self._ceiling_until = self._nodes_at = -1
        self._pods = 0
        self.world.apply_policy(policy("web", extraCapacity={"minRate": 0.4}))
        self.world.settle(12)

    def step(self, number: int) -> None:
        """Let half a minute of the day pass."""
        self._follow_load(number)
        chance = self.dice.random()
        if chance < 1 / 60:
            self._burst(number)
        elif chance < 1 / 60 + 1 / 240:
            self._edit(number, ceiling=True)
        elif chance < 1 / 60 + 1 / 120:
            self._edit(number, ceiling=False)
        elif chance < 1 / 60 + 1 / 80:
            self.world.restart()
            self.happened.restarts += 1
        if number == self._ceiling_until:
            self._edit(number, ceiling=False)
        self._autoscale(number)
        self.world.reconcile(seconds=STEP_SECONDS)
        self.world.loop.rescue()
        self.world.loop.publish_held()

    def _follow_load(self, number: int) -> None:
        """Have as many pods as the hour asks for: twice as many at noon as at night."""
        hour = number * STEP_SECONDS / 3600.0
        wanted = round(12 - 8 * sin(2 * pi * (hour + 6) / 24))
        there = sorted(path for path in self.world.api.objects if path.startswith(f"{SHOP}/day-"))
        for path in there[: max(len(there) - wanted, 0)]:
            del self.world.api.objects[path]
        for _ in range(wanted - len(there)):
            self._pods += 1
            name = f"day-abc-{self._pods:06d}"
            self.world.api.put(f"{SHOP}/{name}", pod(name, f"n{self._pods % NODES}", cpu="500m"))

    def _burst(self, number: int) -> None:
        """Pods take the places of some placeholders, whose successors wait for a node."""
        self.happened.bursts += 1
        self.world.lose(min(self.dice.randint(1, 4), len(self.world.placeholders())))
        self.world.full = True
        self._nodes_at = number + self.dice.choice(NODE_STEPS)
        self.world.say("TriggeredScaleUp", "pod triggered scale-up: [{general 4->5 (max: 20)}]")

    def _autoscale(self, number: int) -> None:
        """The node comes, and what waited for it is bound."""
        if number != self._nodes_at:
            return
        self.world.full = False
        for name, found in self.world.placeholders().items():
            if not found["spec"].get("nodeName"):
                found["spec"]["nodeName"] = f"n{self.dice.randrange(NODES)}"
                found["status"] = {"phase": "Running"}
                self.world.api.put(f"{PODS}/{name}", found)

    def _edit(self, number: int, *, ceiling: bool) -> None:
        """Somebody edits the policy."""
        self._generation += 1
        size: dict[str, Any] = {"minRate": self.dice.choice([0.3, 0.4])}
        if ceiling:
            size["ceiling"] = {"cpu": "2", "memory": "64Gi"}
            self._ceiling_until = number + self.dice.randint(60, 240)
        self.happened.ceilings += ceiling
        self.happened.edits += not ceiling
        self.world.apply_policy(policy("web", self._generation, extraCapacity=size))


def day_series(seed: int, hours: float) -> tuple[dict[str, list[str]], Happened]:
    """Play a day; return what Prometheus would have scraped, and what happened."""
    day, scrapes = Day(seed), Scrapes()
    for number in range(round(hours * 3600 / STEP_SECONDS)):
        day.step(number)
        scrapes.add(day.world)
    return scrapes.series, day.happened


def control_series(seed: int) -> dict[str, list[str]]:
    """Play forty minutes in which no node has space and none comes."""
    day, scrapes = Day(seed), Scrapes()
    day.world.full = True
    day.world.lose(2)
    for _ in range(CONTROL_STEPS):
        day.world.reconcile(seconds=STEP_SECONDS)
        day.world.loop.publish_held()
        scrapes.add(day.world)
    return scrapes.series


def fired(series: dict[str, list[str]], folder: Path) -> dict[str, float]:
    """Return the alerts that fired at any time, with the minutes of each, by Prometheus' own rule engine."""
    rules = yaml.safe_load(resources.files("slack.monitoring").joinpath("rules.yaml").read_text(encoding="utf-8"))
    groups = RULE_GROUPS[MonitoredComponent.OPERATOR]
    rules["groups"] = [group for group in rules["groups"] if group["name"] in groups]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    steps = max(map(len, series.values()))
    seconds = round(steps * STEP_SECONDS)
    firing = f'sum by (alertname) (count_over_time(ALERTS{{alertstate="firing"}}[{seconds}s]))'
    test = {
        "interval": f"{round(STEP_SECONDS)}s",
        "input_series": [{"series": name, "values": " ".join(values)} for name, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": f"{seconds}s", "exp_samples": []}],
    }
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": [test]}
    (folder / "tests.yaml").write_text(json.dumps(document), encoding="utf-8")
    promtool = str(build.ensure(["promtool"])["promtool"])
    done = subprocess.run(
        [promtool, "test", "rules", str(folder / "tests.yaml")],
        capture_output=True,
        text=True,
        timeout=PROMTOOL_SECONDS,
        check=False,
    )
    found = {name: float(count) * 0.5 for name, count in _GOT.findall(done.stdout + done.stderr)}
    if done.returncode and not found:
        raise RuntimeError(f"promtool: {done.stdout}{done.stderr}")
    return found


def main() -> int:
    """Play the day and the control, and print which alerts fired."""
    parser = argparse.ArgumentParser(description="False alerts of a day with bursts, ceilings and restarts.")
    parser.add_argument("--hours", type=float, default=DAY_HOURS, help="how long the day is")
    parser.add_argument("--seed", type=int, default=1, help="of all that happens")
    arguments = parser.parse_args()
    if arguments.hours < 1:
        parser.error("--hours: must be at least 1")
    logging.disable(logging.CRITICAL)
    series, happened = day_series(arguments.seed, arguments.hours)
    with tempfile.TemporaryDirectory(prefix="resource-slack-alerts-") as folder:
        false = fired(series, Path(folder))
        control = fired(control_series(arguments.seed), Path(folder))
    print(
        f"{arguments.hours:g} hours, {len(series)} series: {happened.bursts} bursts, {happened.ceilings} ceilings, "
        f"{happened.edits} other edits, {happened.restarts} restarts of the operator"
    )
    print(f"false alerts: {', '.join(f'{name} for {minutes:g} min' for name, minutes in false.items()) or 0}")
    print(f"alerts of the control: {', '.join(control) or 'none'}")
    return 1 if false or not control else 0


if __name__ == "__main__":
    sys.exit(main())
