"""Try resource-slack on a managed cluster, and print one row for docs/compatibility.md.

    python -m e2e.cloud eks --image REGISTRY/resource-slack           # prints what it would run; runs nothing
    python -m e2e.cloud eks --image REGISTRY/resource-slack --run     # creates a cluster, which costs money
    python -m e2e.cloud current --image REGISTRY/resource-slack --run # the cluster that kubectl points at

Steps: create the cluster, a burst without slack, install, the same burst with slack, uninstall, delete the cluster. The
cluster is deleted also if a step fails. Time is from a pod's creation until it is Ready.
"""

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from e2e.cloud.measuring import (
    NAMESPACE,
    Burst,
    CloudError,
    Json,
    cost_text,
    measure_burst,
    placeholders_left,
    read,
    run,
    wait_until,
)
from e2e.cloud.providers import PROVIDERS, REGIONS, Command, Provider, Request

CHART = Path(__file__).parents[2] / "charts" / "resource-slack"
POLICY = "cloud-try"
BURST_SECONDS = 900.0
RESERVED_SECONDS = 1200.0
"""Until the capacity is there: an autoscaler adds several nodes, one after the other."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one try has shown."""

    kubernetes: str
    without: Burst
    with_slack: Burst
    cost: str
    left: int


def policy(pods: int, cpu: str, memory: str) -> Json:
    """Return a SlackPolicy that reserves the capacity of one burst."""
    cpu_cores = float(cpu.removesuffix("m")) / 1000 if cpu.endswith("m") else float(cpu)
    mebibytes = int(memory.removesuffix("Mi"))
    floor = {"cpu": f"{round(pods * cpu_cores * 1000)}m", "memory": f"{pods * mebibytes}Mi"}
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": {"name": POLICY},
        "spec": {"extraCapacity": {"minRate": 0, "floor": floor}},
    }


def install_command(options: argparse.Namespace, provider: Provider) -> Command:
    """Return the command that installs the chart."""
    image = [f"--set=image.repository={options.image}"] if options.image else []
    return [
        *("helm", "install", "resource-slack", str(CHART), f"--namespace={NAMESPACE}", "--create-namespace"),
        *("--wait", "--timeout=5m", *image, *provider.values, *(f"--set={value}" for value in options.set)),
    ]


def uninstall_command() -> Command:
    """Return the command that uninstalls the chart and its placeholders."""
    return ["helm", "uninstall", "resource-slack", f"--namespace={NAMESPACE}", "--timeout=6m"]


def row(title: str, autoscaler: str, outcome: Outcome, day: str) -> str:
    """Return the row of docs/compatibility.md."""

    def times(burst: Burst) -> str:
        return f"{burst.quantile(0.5):.0f}/{burst.quantile(0.99):.0f} s"

    left = "left nothing" if not outcome.left else f"left {outcome.left} placeholders"
    burst = f"{outcome.with_slack.asked} pods, p50/p99 from creation to Ready"
    compared = f"{times(outcome.without)} without slack, {times(outcome.with_slack)} with it"
    what = f"{burst}: {compared}; slack costs {outcome.cost}; uninstalling {left}"
    return f"| {title}, Kubernetes {outcome.kubernetes}, {autoscaler} | run on {day} | {what} |"


def plan(options: argparse.Namespace, provider: Provider, request: Request) -> list[str]:
    """Return all steps as lines for a person."""
    burst = f"a burst of {options.pods} pods, {options.cpu} and {options.memory} each, until they are Ready"
    lines = [shlex.join(command) for command in provider.create(request)]
    lines += [f"# {burst}", shlex.join(install_command(options, provider))]
    lines += [f"# SlackPolicy {POLICY}: {policy(options.pods, options.cpu, options.memory)['spec']}", f"# {burst}"]
    lines += [shlex.join(uninstall_command()), f"kubectl delete slackpolicy {POLICY}"]
    return lines + [shlex.join(command) for command in provider.delete(request)]


def try_it(options: argparse.Namespace, provider: Provider) -> Outcome:
    """Run the steps on the cluster that kubectl points at."""
    version = read("kubectl", "version", "-o", "json")["serverVersion"]["gitVersion"].removeprefix("v")
    size = (options.pods, options.cpu, options.memory)
    say("burst without slack")
    without = measure_burst(*size, BURST_SECONDS)
    say("install")
    run(*install_command(options, provider))
    try:
        run("kubectl", "apply", "-f", "-", text=json.dumps(policy(*size)))
        say("wait until the capacity is reserved")
        wait_until(_reserved, RESERVED_SECONDS, "SlackPolicy with SlackSatisfied")
        cost = cost_text(read("kubectl", "get", "slackpolicy", POLICY, "-o", "json")["status"])
        say("burst with slack")
        with_slack = measure_burst(*size, BURST_SECONDS)
    finally:
        say("uninstall")
        run("kubectl", "delete", "slackpolicy", POLICY, "--ignore-not-found")
        run(*uninstall_command())
    return Outcome(version, without, with_slack, cost, placeholders_left())


def _reserved() -> bool:
    status = read("kubectl", "get", "slackpolicy", POLICY, "-o", "json").get("status") or {}
    return any(
        condition["type"] == "SlackSatisfied" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )


def say(step: str) -> None:
    """Tell a person how far it is, apart from the row."""
    print(f"{datetime.now(UTC):%H:%M:%S}  {step}", file=sys.stderr, flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cloud", description=__doc__.partition("\n")[0])
    parser.add_argument("provider", choices=PROVIDERS)
    parser.add_argument("--image", default="", help="repository of the image, without tag; needed with --run")
    parser.add_argument("--run", action="store_true", help="run the steps; without it they are only printed")
    parser.add_argument("--yes", action="store_true", help="do not ask first")
    parser.add_argument("--name", default="resource-slack-try", help="name of the cluster")
    parser.add_argument("--region", help="region or zone")
    parser.add_argument("--nodes", type=int, default=2, help="nodes at the start")
    parser.add_argument("--most-nodes", type=int, default=20, help="nodes at the most")
    parser.add_argument("--pods", type=int, default=30, help="pods of a burst")
    parser.add_argument("--cpu", default="500m", help="what each requests")
    parser.add_argument("--memory", default="512Mi", help="what each requests, in Mi")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a value of the chart")
    options = parser.parse_args(arguments)
    if options.run and not options.image:
        parser.error("--image is needed with --run: no image is published yet (docs/image.md)")
    if not options.memory.endswith("Mi"):
        parser.error(f"--memory {options.memory}: expected a number of Mi such as 512Mi")
    return options


def main(arguments: Sequence[str]) -> int:
    """Print the steps, or run them and print the row."""
    options = parse(arguments)
    provider = PROVIDERS[options.provider]
    region = options.region or REGIONS[options.provider]
    request = Request(options.name, region, options.nodes, options.most_nodes)
    if not options.run:
        print("\n".join(plan(options, provider, request)))
        say("nothing was run; add --run")
        return 0
    if missing := [tool for tool in (*provider.tools, "kubectl", "helm") if shutil.which(tool) is None]:
        say(f"not on the PATH: {', '.join(missing)}")
        return 2
    if (
        not options.yes
        and input(f"This costs money on {provider.title}. Type {options.name} to go on: ") != options.name
    ):
        return 2
    try:
        try:
            for command in provider.create(request):
                say(shlex.join(command))
                run(*command)
            outcome = try_it(options, provider)
        finally:
            for command in provider.delete(request):
                say(shlex.join(command))
                run(*command)
    except CloudError as error:
        say(str(error))
        return 1
    print(row(provider.title, provider.autoscaler, outcome, f"{datetime.now(UTC):%Y-%m-%d}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
