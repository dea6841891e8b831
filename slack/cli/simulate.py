"""`simulate`: plays a scenario with its slack, or with several side by side. No cluster is asked."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.problems import UserError
from slack.cli.progress import Steps

if TYPE_CHECKING:
    from slack.simulator.result import Result
    from slack.simulator.scenario import Scenario

PictureFile = Annotated[
    Path | None, typer.Option("--picture", help="Draw it into this file, .png or .svg.", metavar="FILE")
]


def simulate(
    scenario: Annotated[Path, typer.Argument(help="Scenario file, YAML or JSON; - is stdin.", metavar="SCENARIO")],
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            help="Side by side: none, own, rate=0.1, cover=Everything, static=10x500m/1Gi, static=auto (of equal "
            "cost), proportional=1x500m/1Gi/16cores.",
            metavar="LIST",
        ),
    ] = None,
    picture: PictureFile = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.", metavar="FORMAT")] = "table",
    seed: Annotated[
        int | None, typer.Option("--seed", help="Instead of the scenario's.", min=0, show_default=False)
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline/--no-timeline", help="With -o json: the cluster over time, too.")
    ] = False,
) -> None:
    """Play a scenario: how fast its pods start, and what that costs.

    The planner is the operator's own; scheduler and autoscaler are modelled. The same seed gives the same figures.

    [bold]Examples[/bold]

        resource-slack simulate examples/scenarios/burst.yaml

        resource-slack simulate --compare none,rate=0.1,static=auto examples/scenarios/webshop.yaml --picture shop.svg
    """
    from slack.cli.pictures import check_picture, save_picture
    from slack.cli.scenarios import from_file

    if output not in ("table", "json"):
        raise UserError(f"--output: {output!r} is neither table nor json")
    picture_format = check_picture(picture)
    loaded = from_file(scenario)
    if seed is not None:
        loaded = loaded.model_copy(update={"seed": seed})
    from slack.simulator.baselines import priced

    priced_scenario, currency = priced(loaded)
    runs = _runs(priced_scenario, compare)
    if picture is not None:
        from slack.simulator.picture import timeline as drawn

        save_picture(picture, drawn(runs, picture_format))
    if output == "json":
        typer.echo(json.dumps(_document(runs, currency, timeline=timeline), indent=2, ensure_ascii=False))
    else:
        from slack.cli.reports import print_runs

        print_runs(runs, currency, loaded.instant_seconds)
        if picture is not None:
            typer.echo(f"  picture: {picture}")


def _runs(scenario: "Scenario", compare: str | None) -> "list[tuple[str, Result]]":
    from slack.cli.runs import run
    from slack.simulator.baselines import BadVariant, Variant, described, equal_cost_static, variants, with_rate
    from slack.simulator.scenario import Policies

    try:
        wanted = variants(compare, scenario) if compare is not None else (Variant("own", scenario),)
    except BadVariant as error:
        raise UserError(f"--compare: {error}") from None
    found: dict[str, tuple[str, Result]] = {}
    with Steps() as steps:
        for one in wanted:
            if not one.equal_cost:
                found[one.name] = (_name(one.name, one.scenario), run(one.name, one.scenario, steps))
        for one in wanted:
            if not one.equal_cost:
                continue
            # what it shall cost is what the first run of the operator costs
            operators = (other for other in wanted if isinstance(other.scenario.slack, Policies))
            reference = next((found[other.name][1] for other in operators), None)
            if reference is None:
                reference = run("rate=0.1 (the cost for static=auto)", with_rate(scenario, 0.1), steps)
            made, result = equal_cost_static(
                one.scenario, reference.cost, lambda changed: run(described(changed.slack), changed, steps)
            )
            found[one.name] = (described(made.slack), result)
    return [found[one.name] for one in wanted]


def _name(name: str, scenario: "Scenario") -> str:
    from slack.simulator.baselines import described

    return described(scenario.slack) if name == "own" else name


def _document(runs: "list[tuple[str, Result]]", currency: str, *, timeline: bool) -> dict[str, Any]:
    from slack.planner.policy import API_VERSION

    items = [{"name": name, **result.to_dict(timeline=timeline)} for name, result in runs]
    return {"apiVersion": API_VERSION, "kind": "SimulationList", "currency": currency, "items": items}
