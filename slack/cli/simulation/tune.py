"""`tune`: the cheapest rate that reaches a wanted instant-start ratio, from a scenario, a trace or a live cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.flag_values import duration, refuse_given
from slack.cli.inputs.flags import PlaceholderNamespace, PricesFile
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.simulation.simulate import HoldForm, Prices, Processes
from slack.cli.terminal.formats import TABLE, ListedRows, Output, OutputKind, print_document, wide_columns
from slack.cli.terminal.pictures import PictureFile, PictureTarget, checked_picture
from slack.cli.terminal.problems import UserError
from slack.cluster.hold import Hold
from slack.kube.access import ClusterAccess
from slack.process.exit_codes import INFEASIBLE

if TYPE_CHECKING:
    from slack.simulator.runs.tune import Tuned
    from slack.simulator.scenario.scenario import Scenario
    from slack.simulator.traces.replay import Replayed

_LARGEST_RATE = 10.0
_OF_A_CLUSTER = ("kubeconfig", "context", "cluster", "user", "placeholder_namespace")
_OF_A_CURVE = ("instant_start", "seeds", "step", "largest", "exact", "processes", "picture")
_OF_TRAINING = ("learnt_out", "policy")
_OF_A_TUNING = (*_OF_A_CURVE, "output", "objective", "buffer", "hold", *_OF_TRAINING)


_InstantStart = Annotated[
    float,
    typer.Option(
        "--instant-start", help="Wanted share of pods that start without waiting for a node.", metavar="RATIO"
    ),
]
_Objective = Annotated[
    float | None,
    typer.Option(
        "--objective",
        help="Instead of a rate: play it once with spec.objective.instantStart, and show what was learnt.",
        metavar="RATIO",
    ),
]
_LearntOut = Annotated[
    Path | None,
    typer.Option(
        "--learnt-out",
        help="With --objective: write what was learnt as a SlackHistory, from which the operator goes on.",
        metavar="FILE",
    ),
]
_Policy = Annotated[
    str | None,
    typer.Option("--policy", help="With --objective: the SlackPolicy's name, if it is no other.", metavar="NAME"),
]
_Buffer = Annotated[
    str | None,
    typer.Option(
        "--buffer",
        help="Print the replicas or the percentage that an objective would choose for this CapacityBuffer of the "
        "cluster, and why. By the cluster's pods, unless --from-trace or --scenario is given.",
        metavar="NAMESPACE/NAME",
    ),
]
_Scenario = Annotated[Path | None, typer.Option("--scenario", help="Scenario file.", metavar="FILE")]
_FromTrace = Annotated[
    Path | None, typer.Option("--from-trace", "--trace", help="Trace that `record` has written.", metavar="FILE")
]
_FromCluster = Annotated[
    bool, typer.Option("--from-cluster", help="The pods and nodes that a cluster has now, read once.")
]
_Window = Annotated[
    str, typer.Option("--window", help="With --from-cluster: how far back pods are new.", metavar="DURATION")
]
_ScenarioOnly = Annotated[
    Path | None,
    typer.Option(
        "--scenario-only",
        help="Write the scenario made of the trace or cluster into this file and end: for another autoscaler's "
        "settings, limits or prices, then --scenario.",
        metavar="FILE",
    ),
]
_Seeds = Annotated[int, typer.Option("--seeds", help="Runs per rate.", min=1, max=100)]
_Step = Annotated[float, typer.Option("--step", help="Rates are multiples of this.", metavar="RATE")]
_Largest = Annotated[float, typer.Option("--largest", help="No rate above this is tried.", metavar="RATE")]
_Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Leave nothing out: every look of the operator, all seeds of every rate that is tried, no run given "
        "up. Many times as long.",
    ),
]
_Output = Annotated[Output, ListedRows(text="yaml is the SlackPolicy alone.")]


@with_kubectl_flags
def tune(
    ctx: typer.Context,
    instant_start: _InstantStart = 0.99,
    objective: _Objective = None,
    buffer: _Buffer = None,
    learnt_out: _LearntOut = None,
    policy: _Policy = None,
    scenario: _Scenario = None,
    from_trace: _FromTrace = None,
    from_cluster: _FromCluster = False,
    window: _Window = "24h",
    price: Prices = None,
    prices: PricesFile = None,
    scenario_only: _ScenarioOnly = None,
    seeds: _Seeds = 5,
    step: _Step = 0.01,
    largest: _Largest = 1.0,
    exact: _Exact = False,
    hold: HoldForm = None,
    processes: Processes = 2,
    picture: PictureFile = None,
    output: _Output = TABLE,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Find the cheapest rate with which enough pods start without waiting, and print a SlackPolicy with it.

    With --objective no rate is sought: the objective learns from a recording. With --buffer so does a buffer's size.

    Exit code 0: found; 3: no rate reaches the goal; 2: bad input. Nothing is written to any cluster.

    [bold]Examples[/bold]

        resource-slack tune --instant-start 0.99 --from-trace trace.parquet

        resource-slack tune --from-trace trace.parquet --price m7i.2xlarge=0.40 -o yaml | kubectl apply -f -

        resource-slack tune --from-cluster --context prod --window 6h --picture curve.svg

        resource-slack tune --objective 0.99 --from-trace trace.parquet --policy web --learnt-out web.yaml

        resource-slack tune --buffer shop/web --from-trace trace.parquet
    """
    by_cluster = from_cluster or (buffer is not None and scenario is None and from_trace is None)
    _check(instant_start, step, largest, [scenario is not None, from_trace is not None, by_cluster])
    _refuse_ignored(ctx, scenario, from_trace, scenario_only, buffer)
    source = _Source(scenario, from_trace, window, price, prices, placeholder_namespace, access)
    if scenario_only is not None:
        source.save(scenario_only)
        return
    if buffer is not None:
        _size_buffer(ctx, buffer, objective, source, hold, output)
        return
    _refuse_mixed(ctx, objective, learnt_out, policy)
    target, (loaded, left_out) = checked_picture(picture), source.load(hold)
    if objective is not None:
        _train(loaded, objective, learnt_out, policy, output, left_out)
    else:
        options = _SearchOptions(instant_start, seeds, step, largest, exact, processes)
        _search_rate(loaded, options, target, output, left_out)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the scenario is taken from: a scenario file, a trace, or else a cluster."""

    scenario: Path | None
    trace: Path | None
    window: str
    price: list[str] | None
    prices: Path | None
    placeholder_namespace: str
    access: ClusterAccess

    def save(self, path: Path) -> None:
        """Write the scenario that a trace or a cluster makes, and name the next command."""
        from slack.cli.simulation.scenarios import save

        if self.scenario is not None:
            raise UserError("--scenario-only: --scenario names a scenario already")
        save(path, self._replayed().document)
        typer.echo(f"{path} written; next: resource-slack tune --scenario {path}", err=True)

    def load(self, hold: Hold | None) -> "tuple[Scenario, int]":
        """Return the scenario in the wanted form of placeholders, and how many pods of the source it leaves out."""
        if self.scenario is not None:
            from slack.cli.simulation.scenarios import from_file, with_prices

            if self.price:
                own = "a scenario file has its own prices (nodeGroups[].pricePerHour)"
                raise UserError(f"--price: {own}; or give --prices")
            loaded, left_out = with_prices(from_file(self.scenario), self.prices), 0
        else:
            replayed = self._replayed()
            loaded, left_out = replayed.scenario, replayed.left_out
        if hold is not None:
            from slack.simulator.runs.baselines import with_hold

            loaded = with_hold(loaded, hold)
        return loaded, left_out

    def _replayed(self) -> "Replayed":
        from slack.cli.simulation.scenarios import (
            from_cluster,
            node_prices_of,
            prices_of,
            report_left_out,
            seen_in_trace,
        )

        if self.trace is not None:
            return seen_in_trace(self.trace, self.price, self.prices)
        named, of_file = prices_of(self.price), node_prices_of(self.prices)
        window = duration("--window", self.window)
        return report_left_out(from_cluster(self.access, window, self.placeholder_namespace, named, of_file))


@dataclass(frozen=True, slots=True)
class _SearchOptions:
    """Which rates are tried, and how thoroughly."""

    goal: float
    """Wanted share of pods that start without waiting for a node."""
    seeds: int
    step: float
    largest: float
    exact: bool
    processes: int


def _search_rate(
    scenario: "Scenario", search: _SearchOptions, picture: PictureTarget | None, output: Output, left_out: int
) -> None:
    """Search for the cheapest rate, print it, and end with its exit code."""
    from slack.cli.simulation.runs import Runs
    from slack.simulator.runs.baselines import with_known_prices
    from slack.simulator.runs.curve import NothingMeasured
    from slack.simulator.runs.savings import with_fewer_looks
    from slack.simulator.runs.tune import tune as tuned_by
    from slack.simulator.scenario.times import duration_text

    scenario, currency = with_known_prices(scenario)
    played = scenario if search.exact else with_fewer_looks(scenario)
    seeds = range(scenario.seed, scenario.seed + search.seeds)
    try:
        with Runs(played, search.processes) as runs:
            found = tuned_by(
                search.goal, seeds, runs.trials, step=search.step, largest=search.largest, exact=search.exact
            )
    except NothingMeasured as error:
        raise UserError(f"{scenario.name}: {error}; there is nothing to tune") from None
    if picture is not None:
        from slack.simulator.runs.picture import rate_curve

        picture.save(rate_curve(found.curve, picture.format, currency=currency, tuned=found))
    if played is not scenario and not output.for_machines:
        looks = (
            f"every {duration_text(played.operator.interval)}, not every {duration_text(scenario.operator.interval)}"
        )
        typer.echo(f"in these runs the operator looks {looks}; --exact has all its looks", err=True)
    _print(found, scenario, currency, output, left_out)
    if picture is not None and not output.for_machines:
        typer.echo(f"picture: {picture.path}")
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


def _refuse_ignored(
    ctx: typer.Context,
    scenario: Path | None,
    from_trace: Path | None,
    scenario_only: Path | None,
    buffer: str | None,
) -> None:
    ignored = ("window", *(() if buffer is not None else _OF_A_CLUSTER))  # the buffer itself is always the cluster's
    if scenario is not None:
        refuse_given(ctx, ignored, "belongs to --from-cluster; --scenario asks no cluster")
    if from_trace is not None:
        why = "belongs to --from-cluster; what a trace has was chosen when it was recorded"
        refuse_given(ctx, ignored, why)
    if scenario_only is not None:
        refuse_given(ctx, _OF_A_TUNING, "--scenario-only writes a scenario and tunes nothing; leave one of the two out")


def _refuse_mixed(ctx: typer.Context, objective: float | None, learnt_out: Path | None, policy: str | None) -> None:
    if objective is None:
        refuse_given(ctx, _OF_TRAINING, "belongs to --objective; a rate learns nothing")
        return
    from slack.cli.simulation.training import check_name, check_objective, check_place

    refuse_given(ctx, _OF_A_CURVE, "belongs to a search for a rate; --objective is one run and seeks none")
    check_objective(objective)
    if policy is not None:
        check_name(policy)
    if learnt_out is not None:
        check_place(learnt_out)


def _size_buffer(
    ctx: typer.Context, name: str, objective: float | None, source: _Source, hold: Hold | None, output: Output
) -> None:
    """Print the size that an objective would choose for a buffer; end with the exit code that says if there is one."""
    from slack.cli.simulation import buffer_tuning
    from slack.cli.simulation.training import check_objective

    refuse_given(ctx, _OF_A_CURVE, "belongs to a search for a rate; --buffer seeks none")
    refuse_given(ctx, _OF_TRAINING, "belongs to --objective for a policy; --buffer is about a CapacityBuffer")
    wanted = buffer_tuning.DEFAULT_OBJECTIVE if objective is None else objective
    check_objective(wanted)
    namespace, own_name = buffer_tuning.check_buffer(name)
    subject = buffer_tuning.read_subject(source.access, source.placeholder_namespace, namespace, own_name)
    loaded, left_out = source.load(hold)
    found = buffer_tuning.tune_buffer(loaded, subject, wanted)
    if output.for_machines:
        print_document(buffer_tuning.document(found, left_out), output)
    else:
        buffer_tuning.print_buffer(found)
    if found.size is None:
        raise typer.Exit(INFEASIBLE)


def _train(
    scenario: "Scenario",
    objective: float,
    learnt_out: Path | None,
    policy: str | None,
    output: Output,
    left_out: int,
) -> None:
    import yaml

    from slack.cli.simulation import training

    found = training.train_objective(scenario, objective)
    if learnt_out is not None:
        training.save(learnt_out, training.histories(found.trained, policy))
    text = yaml.safe_dump_all(training.objects(found, policy), sort_keys=False, width=120, allow_unicode=True)
    if output.kind is OutputKind.YAML:
        typer.echo(text, nl=False)
    elif output.for_machines:
        print_document(training.document(found, policy, left_out), output)
    else:
        training.print_training(found)
        typer.echo(f"\nTo apply it (-o yaml prints only this):\n\n{text}", nl=False)


def _print(tuned: "Tuned", scenario: "Scenario", currency: str, output: Output, left_out: int) -> None:
    import yaml

    from slack.cli.simulation.rate_reports import caution, no_slack_needed, print_tuned
    from slack.simulator.runs.tune import policies

    chosen = policies(scenario, tuned.chosen.rate) if tuned.chosen is not None else []
    text = yaml.safe_dump_all(chosen, sort_keys=False, width=120, allow_unicode=True)
    if output.kind is OutputKind.YAML:
        if not chosen:
            best = tuned.best
            said = f"no rate up to {tuned.curve[-1].rate:g} reaches {tuned.goal:g}; the best is {best.rate:g} with"
            typer.echo(f"{said} {best.instant_start_ratio:.3f}", err=True)
        elif open_question := caution(tuned):
            typer.echo(f"note: {open_question}", err=True)
        if remark := no_slack_needed(tuned):
            typer.echo(f"note: {remark}", err=True)
        typer.echo(text, nl=False)
    elif output.for_machines:
        print_document(_document(tuned, currency, chosen, left_out), output)
    else:
        with wide_columns(output):
            print_tuned(tuned, currency)
        if chosen:
            typer.echo(f"\nTo apply it (-o yaml prints only this):\n\n{text}", nl=False)


def _document(tuned: "Tuned", currency: str, chosen: list[dict[str, Any]], left_out: int) -> dict[str, Any]:
    from slack.cluster.labels import API_VERSION

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
        "given_up": list(tuned.given_up),
        "policies": chosen,
        "left_out_pods": left_out,
    }
