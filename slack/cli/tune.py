"""`tune`: the cheapest rate that reaches a wanted instant-start ratio, from a scenario, a trace or a live cluster."""

import json
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs import Context, Kubeconfig, PlaceholderNamespace
from slack.cli.problems import INFEASIBLE, UserError
from slack.cli.simulate import PictureFile, Processes

if TYPE_CHECKING:
    from slack.simulator.replay import Replayed
    from slack.simulator.scenario import Scenario
    from slack.simulator.tune import Tuned

_LARGEST_RATE = 10.0


class Output(StrEnum):
    """How a tuning is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def tune(
    instant_start: Annotated[
        float, typer.Option("--instant-start", help="Wanted share of pods that start at once.", metavar="RATIO")
    ] = 0.99,
    scenario: Annotated[Path | None, typer.Option("--scenario", help="Scenario file.", metavar="FILE")] = None,
    from_trace: Annotated[
        Path | None, typer.Option("--from-trace", help="Trace that `record` has written.", metavar="FILE")
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="The pods and nodes that a cluster has now, read once.")
    ] = False,
    window: Annotated[
        str, typer.Option("--window", help="With --from-cluster: how far back pods are new.", metavar="DURATION")
    ] = "24h",
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            help="Price per hour of an instance type or node group: m7i.large=0.1. May be repeated. Without prices, "
            "cost is in core hours.",
            metavar="NAME=PRICE",
        ),
    ] = None,
    scenario_only: Annotated[
        Path | None,
        typer.Option(
            "--scenario-only",
            help="Write the scenario made of the trace or cluster into this file and end: for another autoscaler's "
            "settings, limits or prices, then --scenario.",
            metavar="FILE",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Runs a rate.", min=1, max=100)] = 5,
    step: Annotated[float, typer.Option("--step", help="Rates are multiples of this.", metavar="RATE")] = 0.01,
    largest: Annotated[float, typer.Option("--largest", help="No rate above this is tried.", metavar="RATE")] = 1.0,
    processes: Processes = 2,
    picture: PictureFile = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="yaml is the SlackPolicy alone.")] = Output.TABLE,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Find the cheapest rate with which enough pods start at once, and print a SlackPolicy with it.

    Exit code 0: found; 3: no rate reaches the goal; 2: bad input. Nothing is written to any cluster.

    [bold]Examples[/bold]

        resource-slack tune --instant-start 0.99 --from-trace trace.parquet

        resource-slack tune --from-trace trace.parquet --price m7i.2xlarge=0.40 -o yaml | kubectl apply -f -

        resource-slack tune --from-cluster --context prod --window 6h --picture curve.svg
    """
    from slack.cli.pictures import check_picture, save_picture

    _check(instant_start, step, largest, [scenario is not None, from_trace is not None, from_cluster])
    picture_format = check_picture(picture)
    if scenario is not None:
        from slack.cli.scenarios import from_file

        if scenario_only is not None:
            raise UserError("--scenario-only: --scenario names a scenario already")
        if price:
            raise UserError("--price: a scenario file has its own prices (nodeGroups[].pricePerHour)")
        loaded = from_file(scenario)
    else:
        seen = _seen(from_trace, window, price, placeholder_namespace, kubeconfig, context)
        if scenario_only is not None:
            from slack.cli.scenarios import save

            save(scenario_only, seen.document)
            typer.echo(f"{scenario_only} written; next: resource-slack tune --scenario {scenario_only}", err=True)
            return
        loaded = seen.scenario
    from slack.cli.runs import Runs
    from slack.simulator.baselines import priced
    from slack.simulator.curve import NothingMeasured
    from slack.simulator.tune import tune as tuned_by

    loaded, currency = priced(loaded)
    first = loaded.seed
    try:
        with Runs(loaded, processes) as runs:
            found = tuned_by(instant_start, range(first, first + seeds), runs.trials, step=step, largest=largest)
    except NothingMeasured as error:
        raise UserError(f"{loaded.name}: {error}; there is nothing to tune") from None
    if picture is not None:
        from slack.simulator.picture import rate_curve

        save_picture(picture, rate_curve(found.curve, picture_format, currency=currency, tuned=found))
    _print(found, loaded, currency, output)
    if picture is not None and output is Output.TABLE:
        typer.echo(f"picture: {picture}")
    if found.chosen is None:
        raise typer.Exit(INFEASIBLE)


def _check(instant_start: float, step: float, largest: float, sources: list[bool]) -> None:
    if sources.count(True) != 1:
        raise UserError("give exactly one of --scenario FILE, --from-trace FILE and --from-cluster")
    if not 0 < instant_start <= 1:
        # from 2 on it can only have been meant in percent; 1.5 may be anything
        right = f"write {instant_start / 100:g}" if 2 <= instant_start <= 100 else "0.99 is 99 %"
        raise UserError(f"--instant-start: {instant_start:g} is not a share above 0 and up to 1; {right}")
    if not 0 < largest <= _LARGEST_RATE:
        raise UserError(f"--largest: {largest:g} is not a rate above 0 and up to {_LARGEST_RATE:g}")
    if not 0.001 <= step <= largest:
        raise UserError(f"--step: {step:g} is not from 0.001 to {largest:g}")


def _seen(
    trace: Path | None,
    window: str,
    price: list[str] | None,
    placeholder_namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> "Replayed":
    from slack.cli.scenarios import from_cluster, from_trace, prices_of

    prices = prices_of(price)
    if trace is not None:
        found = from_trace(trace, prices)
    else:
        found = from_cluster(kubeconfig, context, duration("--window", window), placeholder_namespace, prices)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    return found


def duration(flag: str, text: str) -> timedelta:
    """Read a flag's duration.

    Raises:
        UserError: for anything that is none, and for nothing at all.
    """
    from slack.planner.policy import parse_duration

    try:
        value = parse_duration(text)
    except ValueError as error:
        raise UserError(f"{flag}: {error}") from None
    if value <= timedelta(0):
        raise UserError(f"{flag}: must be longer than 0s")
    return value


def _print(tuned: "Tuned", scenario: "Scenario", currency: str, output: Output) -> None:
    import yaml

    from slack.cli.reports import caution, print_tuned
    from slack.simulator.tune import policies

    chosen = policies(scenario, tuned.chosen.rate) if tuned.chosen is not None else []
    text = yaml.safe_dump_all(chosen, sort_keys=False, width=120, allow_unicode=True)
    if output is Output.JSON:
        typer.echo(json.dumps(_document(tuned, currency, chosen), indent=2, ensure_ascii=False))
    elif output is Output.YAML:
        if not chosen:
            best = tuned.best
            said = f"no rate up to {tuned.curve[-1].rate:g} reaches {tuned.goal:g}; the best is {best.rate:g} with"
            typer.echo(f"{said} {best.instant_start_ratio:.3f}", err=True)
        elif said := caution(tuned):
            typer.echo(f"note: {said}", err=True)
        typer.echo(text, nl=False)
    else:
        print_tuned(tuned, currency)
        if chosen:
            typer.echo(f"\nTo apply it (-o yaml prints only this):\n\n{text}", nl=False)


def _document(tuned: "Tuned", currency: str, chosen: list[dict[str, Any]]) -> dict[str, Any]:
    from slack.planner.policy import API_VERSION

    return {
        "apiVersion": API_VERSION,
        "kind": "Tuning",
        "instant_start": tuned.goal,
        "seeds": list(tuned.seeds),
        "currency": currency,
        "reached": tuned.chosen is not None,
        "chosen": tuned.chosen.to_dict() if tuned.chosen is not None else None,
        "surer": tuned.surer.to_dict() if tuned.surer is not None else None,
        "curve": [point.to_dict() for point in tuned.curve],
        "policies": chosen,
    }
