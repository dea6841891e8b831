"""`simulate`: plays a scenario with its slack, with several side by side, or with a curve of rates. Asks no cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.flags import PricesFile
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, wide_columns
from slack.cli.terminal.pictures import PictureFile, PictureTarget
from slack.cli.terminal.problems import UserError
from slack.cluster.hold import Hold

if TYPE_CHECKING:
    from slack.cli.simulation.comparison import ComparedVariant
    from slack.simulator.scenario.scenario import Scenario

Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        help="Price per hour of an instance type or node group: m7i.large=0.1. May be repeated. Without prices, "
        "cost is in node hours; of nodes of several sizes in core hours.",
        metavar="NAME=PRICE",
    ),
]
HoldForm = Annotated[
    Hold | None,
    typer.Option(
        "--hold",
        help="Form of the placeholders of policies that name none, instead of the scenario's operator.hold: Bound, "
        "Unbound, or Auto (Unbound where the scenario has an autoscaler).",
        show_default=False,
    ),
]
Processes = Annotated[int, typer.Option("--processes", help="Runs at a time.", min=1, max=64)]
_ON_A_TRACE = "none,own,static=auto,proportional=auto"
_DEFAULT_CURVE = (0.0, 0.05, 0.1, 0.2, 0.4)


_Scenario = Annotated[Path | None, typer.Argument(help="Scenario file, YAML or JSON; - is stdin.", metavar="SCENARIO")]
_Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Trace that `record` has written, instead of a scenario. Without --compare or --curve: no slack, the "
        "default rate, and a static and a proportional overprovisioner of its cost.",
        metavar="FILE",
    ),
]
_Compare = Annotated[
    str | None,
    typer.Option(
        "--compare",
        help="Side by side: none, own, rate=0.1, objective=0.95, cover=Everything, hold=Unbound, static=10x500m/1Gi, "
        "proportional=1x500m/1Gi/16cores. With =auto instead of a size, rate, static and proportional cost as much as "
        "the operator before them.",
        metavar="LIST",
    ),
]
_Curve = Annotated[
    str | None,
    typer.Option(
        "--curve",
        help="Rate against instant start and cost: rates such as 0,0.1,0.2, or default (0,0.05,0.1,0.2,0.4).",
        metavar="RATES",
    ),
]
_Seeds = Annotated[
    int, typer.Option("--seeds", help="Runs of each, with the seeds that follow the first.", min=1, max=100)
]
_Seed = Annotated[
    int | None,
    typer.Option("--seed", help="The first seed, instead of the scenario's.", min=0, max=2**63 - 1, show_default=False),
]
_Timeline = Annotated[bool, typer.Option("--timeline/--no-timeline", help="With -o json: the cluster over time, too.")]


@with_kubectl_flags
def simulate(
    scenario: _Scenario = None,
    trace: _Trace = None,
    price: Prices = None,
    prices: PricesFile = None,
    compare: _Compare = None,
    curve: _Curve = None,
    seeds: _Seeds = 1,
    seed: _Seed = None,
    hold: HoldForm = None,
    processes: Processes = 2,
    picture: PictureFile = None,
    output: Output = TABLE,
    timeline: _Timeline = False,
) -> None:
    """Play a scenario: how fast its pods start, and what that costs.

    The planner is the operator's own; scheduler and autoscaler are modelled. The same seeds give the same figures.
    Every field of a scenario is in docs/reference/scenario.md.

    [bold]Examples[/bold]

        resource-slack simulate examples/scenarios/burst.yaml

        resource-slack simulate --compare none,rate=0.1,static=auto examples/scenarios/webshop.yaml --picture shop.svg

        resource-slack simulate --curve default --seeds 5 examples/scenarios/burst.yaml --picture curve.svg

        resource-slack simulate --trace trace.parquet --picture kinds.svg
    """
    from slack.cli.terminal.pictures import checked_picture

    if curve is not None and compare is not None:
        raise UserError("--curve: not together with --compare; run them one after the other")
    if curve is not None and timeline:
        raise UserError("--timeline: a curve has none; use --compare, such as rate=0.1,rate=0.2")
    if timeline and not output.for_machines:
        raise UserError("--timeline: only JSON has it; add -o json, or let --picture FILE draw it")
    rates = _rates(curve) if curve is not None else ()
    drawn = checked_picture(picture)
    loaded = _load(scenario, trace, price, prices)
    if trace is not None and compare is None and curve is None:
        compare = _ON_A_TRACE
    first = loaded.seed if seed is None else seed
    from slack.simulator.runs.baselines import with_hold, with_known_prices

    priced_scenario, currency = with_known_prices(loaded if hold is None else with_hold(loaded, hold))
    out = _Out(output, drawn, currency, timeline=timeline)
    if curve is not None:
        _curve(priced_scenario, rates, range(first, first + seeds), processes, out)
    else:
        _comparison(priced_scenario, compare, range(first, first + seeds), processes, out)
    if picture is not None and not output.for_machines:
        typer.echo(f"  picture: {picture}")


def _load(scenario: Path | None, trace: Path | None, price: list[str] | None, prices: Path | None) -> "Scenario":
    """Return the scenario of a file, or that of a trace.

    Raises:
        UserError: for none or both of them, and for prices of a scenario, which has its own.
    """
    from slack.cli.simulation.scenarios import from_file, seen_in_trace, with_prices

    if scenario is not None and trace is None:
        if price:
            raise UserError("--price: a scenario file has its own prices (nodeGroups[].pricePerHour); or give --prices")
        return with_prices(from_file(scenario), prices)
    if scenario is not None or trace is None:
        raise UserError("SCENARIO: give either a scenario file or --trace FILE")
    return seen_in_trace(trace, price, prices).scenario


class _Out:
    """Where to, and how."""

    def __init__(self, output: Output, picture: PictureTarget | None, currency: str, *, timeline: bool) -> None:
        self.format = output
        self.picture, self.currency, self.timeline = picture, currency, timeline

    def print_json(self, kind: str, **fields: Any) -> None:
        """Print one object."""
        from slack.cluster.labels import API_VERSION

        document = {"apiVersion": API_VERSION, "kind": kind, "currency": self.currency, **fields}
        print_document(document, self.format)


def _comparison(scenario: "Scenario", compare: str | None, seeds: range, processes: int, out: _Out) -> None:
    from slack.cli.simulation.comparison import asked_for, compare_variants

    lines = compare_variants(scenario, asked_for(compare, scenario), seeds, processes if len(seeds) > 1 else 1)
    if out.picture is not None:
        from slack.simulator.runs.picture import timeline

        out.picture.save(timeline(_first_runs(lines), out.picture.format))
    if out.format.for_machines:
        items = [
            {"name": line.label, "variant": line.word, **line.found.to_dict(timeline=out.timeline)} for line in lines
        ]
        out.print_json("SimulationList", items=items)
    else:
        from slack.cli.simulation.reports import print_runs

        with wide_columns(out.format):
            print_runs(lines, out.currency, scenario.instant_seconds)


def _first_runs(lines: "Sequence[ComparedVariant]") -> "list[tuple[str, Any]]":
    """Return what a picture shows: the run of the first seed, as a mean of timelines would show what never was."""
    seed = f", seed {lines[0].found.seeds[0]}" if len(lines[0].found.runs) > 1 else ""
    return [(line.label + seed, line.found.first) for line in lines]


def _curve(scenario: "Scenario", rates: Sequence[float], seeds: range, processes: int, out: _Out) -> None:
    from slack.cli.simulation.runs import Runs
    from slack.simulator.runs.curve import NothingMeasured
    from slack.simulator.runs.curve import curve as curve_of

    try:
        with Runs(scenario, processes) as runs:
            points = curve_of(rates, seeds, runs.trials)
    except NothingMeasured as error:
        raise UserError(f"--curve: {error}") from None
    if out.picture is not None:
        from slack.simulator.runs.picture import rate_curve

        out.picture.save(rate_curve(points, out.picture.format, currency=out.currency))
    if out.format.for_machines:
        out.print_json(
            "RateCurve", scenario=scenario.name, seeds=list(seeds), curve=[point.to_dict() for point in points]
        )
    else:
        from slack.cli.simulation.rate_reports import print_curve

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
