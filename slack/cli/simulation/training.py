"""`tune --objective`: a scenario or recording teaches an objective; what it would keep is shown, and may be saved."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.text import Text

from slack.cli.terminal.counts import count_text
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack.cli.terminal.progress import ProgressSteps
    from slack.simulator.model.result import Result
    from slack.simulator.runs.baselines import Sized
    from slack.simulator.runs.train import TrainedObjective, TrainedPolicy
    from slack.simulator.scenario.scenario import Scenario


class ConstantRate(NamedTuple):
    """The constant rate that costs as much as the objective did."""

    rate: float
    instant_start_ratio: float
    cost: float


class Training(NamedTuple):
    """What was played."""

    scenario: "Scenario"
    currency: str
    without: "Result"
    """The same without slack."""
    trained: "TrainedObjective"
    constant: "ConstantRate"


def train_objective(scenario: "Scenario", instant_start: float) -> Training:
    """Play a scenario with an objective, without slack, and with the constant rate of the objective's cost.

    Raises:
        UserError: when no pod came in it.
    """
    from slack.cli.terminal.progress import ProgressSteps
    from slack.simulator.runs.baselines import variant, with_known_prices
    from slack.simulator.runs.engine import simulate
    from slack.simulator.runs.train import train

    scenario, currency = with_known_prices(scenario)
    with ProgressSteps() as steps:
        without = simulate(variant("none", scenario).scenario)
        tell = steps.add_step(f"objective {instant_start:g}")
        found = train(scenario, instant_start, on_progress=lambda at, end: tell(at / end))
        if not found.result.total.pods:
            raise UserError(f"{scenario.name}: no pod comes after the warm-up; there is nothing to learn")
        constant = _constant_rate(scenario, found.result.cost, steps)
    return Training(scenario, currency, without, found, constant)


def _constant_rate(scenario: "Scenario", cost: float, steps: "ProgressSteps") -> ConstantRate:
    """Find the constant rate of a cost, and what it reaches; its operator looks as often as with the objective."""
    from slack.simulator.runs.baselines import equal_cost, rate_of, variant
    from slack.simulator.runs.engine import simulate

    own = variant("rate=auto", scenario).scenario
    found: dict[float, Result] = {}

    def cost_of(slack: "Sized") -> float:
        rate = rate_of(slack)
        tell = steps.add_step(f"rate {rate:g}")
        played = own.model_copy(update={"slack": slack})
        found[rate] = simulate(played, on_progress=lambda at, end: tell(at / end))
        return found[rate].cost

    rate = rate_of(equal_cost(own, cost, cost_of))
    return ConstantRate(rate, found[rate].instant_start_ratio, found[rate].cost)


def check_objective(instant_start: float) -> None:
    """Check --objective before anything is played.

    Raises:
        UserError: for what no objective can be.
    """
    if not 0.5 <= instant_start <= 0.999:
        right = f"write {instant_start / 100:g}" if 50 <= instant_start < 100 else "0.99 is 99 %"
        raise UserError(f"--objective: {instant_start:g} is not a share of pods from 0.5 to 0.999; {right}")


def check_name(policy: str) -> None:
    """Check --policy before anything is played.

    Raises:
        UserError: for what no SlackPolicy can be called.
    """
    from slack.schema.documents import is_name

    if not is_name(policy):
        raise UserError(
            f"--policy: {policy!r} is no name of a SlackPolicy, which is a DNS name of at most 63 characters"
        )


def check_place(learnt_out: Path) -> None:
    """Find out before a long run whether --learnt-out can be written.

    Raises:
        UserError: when it names a folder, or is in one that is not there.
    """
    if learnt_out.is_dir():
        raise UserError(f"--learnt-out: {learnt_out} is a folder; name a file in it")
    if not learnt_out.absolute().parent.is_dir():
        raise UserError(f"--learnt-out: {learnt_out}: no such folder")


def histories(trained: "TrainedObjective", name: str | None) -> str:
    """Return what was learnt as SlackHistory objects that an operator takes over.

    Raises:
        UserError: for a name where several policies have learnt.
    """
    import yaml

    from slack.cluster.labels import API_VERSION, LABEL_MANAGED_BY, MANAGED_BY
    from slack.planner.objective.history_object import learnt
    from slack.planner.policy.history import HISTORY_KIND

    if name is not None and len(trained.policies) > 1:
        raise UserError(f"--policy: {len(trained.policies)} policies have learnt, each for itself; leave it out")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    objects = [
        {
            "apiVersion": API_VERSION,
            "kind": HISTORY_KIND,
            "metadata": {"name": name or policy.name, "labels": {LABEL_MANAGED_BY: MANAGED_BY}},
            "learnt": learnt(policy.learner, now),
        }
        for policy in trained.policies
    ]
    return yaml.safe_dump_all(objects, sort_keys=False, width=120)


def save(path: Path, text: str) -> None:
    """Write --learnt-out.

    Raises:
        UserError: when it cannot be written.
    """
    from slack.process.atomic_write import write_atomically

    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise UserError(f"--learnt-out: {path}: {(error.strerror or str(error)).lower()}") from None
    next_ = f"kubectl create -n resource-slack -f {path}, before the policy has its objective"
    typer.echo(f"{path} written; next, in the operator's namespace: {next_}", err=True)


def objects(training: Training, name: str | None) -> list[dict[str, Any]]:
    """Return the policies with the objective, ready to apply."""
    from slack.simulator.runs.tune import policies

    found = policies(training.scenario, None, training.trained.objective)
    if name is not None:
        for policy in found:
            policy["metadata"]["name"] = name
    return found


def document(training: Training, name: str | None, left_out: int) -> dict[str, Any]:
    """Return all of it for programs."""
    from slack.cluster.labels import API_VERSION

    trained, without = training.trained, training.without
    return {
        "apiVersion": API_VERSION,
        "kind": "Teaching",
        "objective": trained.objective,
        "reached": trained.reached,
        "currency": training.currency,
        "instant_start_ratio": trained.result.instant_start_ratio,
        "cost": trained.result.cost,
        "instant_start_ratio_without": without.instant_start_ratio if without.total.pods else None,
        "cost_without": without.cost,
        "constant_rate": training.constant._asdict(),
        "measured_seconds": trained.result.measured_seconds,
        "pods": trained.result.total.pods,
        "learnt": trained.to_dict(),
        "policies": objects(training, name),
        "left_out_pods": left_out,
    }


def print_training(training: Training) -> None:
    """Print share and cost of the run, and what would be kept in the day after it, hour by hour."""
    from slack.cli.simulation.figures import percent
    from slack.cli.terminal.console import console

    out, trained, without = console(), training.trained, training.without
    result = trained.result
    out.print(Text(f"Instant start of {percent(trained.objective)} wanted; one run, learning included", style="bold"))
    unit = f" {training.currency}" if training.currency else ""
    share, pods = percent(without.instant_start_ratio), result.total.pods
    out.print(
        f"{percent(result.instant_start_ratio)} of {count_text(pods, 'pod')} started without waiting, instead of "
        f"{share} without slack. It cost {result.cost:.2f}{unit}, {result.cost - without.cost:.2f} more.",
        soft_wrap=True,
    )
    rate, constant = training.constant.rate, percent(training.constant.instant_start_ratio)
    out.print(
        f"A constant rate of that cost ({rate:g}, cost {training.constant.cost:.2f}{unit}) has {constant}.",
        soft_wrap=True,
    )
    for policy in trained.policies:
        _print_policy(policy)


def _print_policy(policy: "TrainedPolicy") -> None:
    from rich.table import Table

    from slack.cli.terminal.console import console, print_table
    from slack.planner.objective.why_text import why_text

    out = console()
    amount = pair_text(policy.amount.cpu_millis, policy.amount.memory_bytes)
    out.print(Text(f"\n{policy.name}: {why_text(policy.amount.why, amount)}."), soft_wrap=True)
    if not policy.amount.why.known:
        return
    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("  HOUR (UTC)", "KEPT", "AT MOST"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown: tuple[str, str] | None = None
    for hour in policy.hours:
        row = (pair_text(hour.cpu_millis, hour.memory_bytes), pair_text(hour.most_cpu_millis, hour.most_memory_bytes))
        if row != shown:
            table.add_row(f"  {datetime.fromtimestamp(hour.at_seconds, UTC):%a %H:%M}", *row)
        shown = row
    print_table(out, table)
    said = "  The day that follows, as it was learnt; hours that keep what the last one keeps are left out. KEPT: mean."
    out.print(Text(said), style="dim", soft_wrap=True)


def pair_text(cpu_millis: int, memory_bytes: int) -> str:
    """Return an amount as tables have it: `3800m/8.0Gi`."""
    from slack.cluster.quantity import format_cpu

    gib = memory_bytes / (1 << 30)
    return f"{format_cpu(cpu_millis)}/{gib:.1f}Gi" if gib < 100 else f"{format_cpu(cpu_millis)}/{gib:.0f}Gi"
