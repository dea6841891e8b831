"""`simulate`: plays a scenario with its slack, with several side by side, or with a curve of rates. Asks no cluster."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cli.comparing import Compared
    from slack.simulator.scenario import Scenario

PictureFile = Annotated[
    Path | None, typer.Option("--picture", help="Draw it into this file, .png or .svg.", metavar="FILE")
]
Processes = Annotated[int, typer.Option("--processes", help="Runs at a time.", min=1, max=64)]
_DEFAULT_CURVE = (0.0, 0.05, 0.1, 0.2, 0.4)


def simulate(
    scenario: Annotated[Path, typer.Argument(help="Scenario file, YAML or JSON; - is stdin.", metavar="SCENARIO")],
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            help="Side by side: none, own, rate=0.1, cover=Everything, static=10x500m/1Gi, static=auto (costs what "
            "the operator before it costs), proportional=1x500m/1Gi/16cores.",
            metavar="LIST",
        ),
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(
            "--curve",
            help="Rate against instant start and cost: rates such as 0,0.1,0.2, or default (0,0.05,0.1,0.2,0.4).",
            metavar="RATES",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", help="Runs of each, with the seeds that follow the first.", min=1, max=100)
    ] = 1,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="The first seed, instead of the scenario's.", min=0, max=2**63 - 1, show_default=False
        ),
    ] = None,
    processes: Processes = 2,
    picture: PictureFile = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.", metavar="FORMAT")] = "table",
    timeline: Annotated[
        bool, typer.Option("--timeline/--no-timeline", help="With -o json: the cluster over time, too.")
    ] = False,
) -> None:
    """Play a scenario: how fast its pods start, and what that costs.

    The planner is the operator's own; scheduler and autoscaler are modelled. The same seeds give the same figures.
    Every field of a scenario: [bold]resource-slack reference[/bold].

    [bold]Examples[/bold]

        resource-slack simulate examples/scenarios/burst.yaml

        resource-slack simulate --compare none,rate=0.1,static=auto examples/scenarios/webshop.yaml --picture shop.svg

        resource-slack simulate --curve default --seeds 5 examples/scenarios/burst.yaml --picture curve.svg
    """
    from slack.cli.pictures import check_picture
    from slack.cli.scenarios import from_file

    if output not in ("table", "json"):
        raise UserError(f"--output: {output!r} is neither table nor json")
    if curve is not None and compare is not None:
        raise UserError("--curve: not together with --compare; run them one after the other")
    if curve is not None and timeline:
        raise UserError("--timeline: a curve has none; use --compare, such as rate=0.1,rate=0.2")
    if timeline and output != "json":
        raise UserError("--timeline: only JSON has it; add -o json, or let --picture FILE draw it")
    rates = _rates(curve) if curve is not None else ()
    picture_format = check_picture(picture)
    loaded = from_file(scenario)
    first = loaded.seed if seed is None else seed
    from slack.simulator.baselines import priced

    priced_scenario, currency = priced(loaded)
    out = _Out(output, picture, picture_format, currency, timeline=timeline)
    if curve is not None:
        _curve(priced_scenario, rates, range(first, first + seeds), processes, out)
    else:
        _comparison(priced_scenario, compare, range(first, first + seeds), processes, out)
    if picture is not None and output == "table":
        typer.echo(f"  picture: {picture}")


class _Out:
    """Where to, and how."""

    def __init__(
        self, output: str, picture: Path | None, picture_format: str, currency: str, *, timeline: bool
    ) -> None:
        self.json = output == "json"
        self.picture, self.picture_format = picture, picture_format
        self.currency, self.timeline = currency, timeline

    def print_json(self, kind: str, **fields: Any) -> None:
        """Print one object."""
        from slack.planner.policy import API_VERSION

        document = {"apiVersion": API_VERSION, "kind": kind, "currency": self.currency, **fields}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _comparison(scenario: "Scenario", compare: str | None, seeds: range, processes: int, out: _Out) -> None:
    from slack.cli.comparing import asked_for, compared

    lines = compared(scenario, asked_for(compare, scenario), seeds, processes if len(seeds) > 1 else 1)
    if out.picture is not None:
        from slack.cli.pictures import save_picture
        from slack.simulator.picture import timeline

        save_picture(out.picture, timeline(_drawn(lines), out.picture_format))
    if out.json:
        items = [
            {"name": line.label, "variant": line.word, **line.found.to_dict(timeline=out.timeline)} for line in lines
        ]
        out.print_json("SimulationList", items=items)
    else:
        from slack.cli.reports import print_runs

        print_runs(lines, out.currency, scenario.instant_seconds)


def _drawn(lines: "Sequence[Compared]") -> "list[tuple[str, Any]]":
    """Return what a picture shows: the run of the first seed, as a mean of timelines would show what never was."""
    seed = f", seed {lines[0].found.seeds[0]}" if len(lines[0].found.runs) > 1 else ""
    return [(line.label + seed, line.found.first) for line in lines]


def _curve(scenario: "Scenario", rates: Sequence[float], seeds: range, processes: int, out: _Out) -> None:
    from slack.cli.runs import Runs
    from slack.simulator.curve import NothingMeasured
    from slack.simulator.curve import curve as curve_of

    try:
        with Runs(scenario, processes) as runs:
            points = curve_of(rates, seeds, runs.trials)
    except NothingMeasured as error:
        raise UserError(f"--curve: {error}") from None
    if out.picture is not None:
        from slack.cli.pictures import save_picture
        from slack.simulator.picture import rate_curve

        save_picture(out.picture, rate_curve(points, out.picture_format, currency=out.currency))
    if out.json:
        out.print_json(
            "RateCurve", scenario=scenario.name, seeds=list(seeds), curve=[point.to_dict() for point in points]
        )
    else:
        from slack.cli.reports import print_curve

        print_curve(points, scenario.name, out.currency, scenario.instant_seconds)


def _rates(text: str) -> tuple[float, ...]:
    """Read --curve.

    Raises:
        UserError: for anything but rates, and for one that is given twice.
    """
    if text.strip() == "default":
        return _DEFAULT_CURVE
    rates: list[float] = []
    for word in (part.strip() for part in text.split(",") if part.strip()):
        try:
            rate = float(word)
        except ValueError:
            rate = -1.0
        if not 0 <= rate <= 10:
            right = "0.1 is ten percent; or write default"
            raise UserError(f"--curve: {word!r} is not a rate from 0 to 10; {right}")
        if rate in rates:
            raise UserError(f"--curve: {word!r} is given twice")
        rates.append(rate)
    if not rates:
        raise UserError("--curve: it names no rate; write for example 0,0.05,0.1,0.2 or default")
    return tuple(rates)
