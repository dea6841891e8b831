"""Where `simulate` and `tune` take a scenario from: a file, a trace, or a live cluster read once. Only reads.

A problem of a scenario file names the field's path and its line.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.files import name_of, read_bytes
from slack.cli.terminal.extras import require_extra
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.cluster.node_prices import NodePrices
    from slack.simulator.scenario.scenario import Scenario
    from slack.simulator.traces.format import Trace
    from slack.simulator.traces.replay import Replayed

_EXAMPLE = "a scenario, as in examples/scenarios"
_GROUPS_SHOWN = 8


def from_file(path: Path) -> "Scenario":
    """Read a scenario file. What can be played and is hardly meant is said on stderr.

    Raises:
        UserError: for what is not YAML, and for a key given twice.
        InvalidScenario: for what is no scenario, each problem with its field and line.
    """
    from slack.cli.inputs import files
    from slack.simulator.scenario.scenario import InvalidScenario, parse_scenario, warnings_of

    name, data = name_of(path), read_bytes(path, files.MOST_SCENARIO_BYTES)
    document = files.json_object(data, source=name)
    if document is None:
        document = _only(data, name)
    try:
        scenario = parse_scenario(document, source=name)
    except InvalidScenario as error:
        root = files.nodes(data, source=name)
        raise InvalidScenario(
            tuple(f"{problem}{files.line_of(root, problem)}" for problem in error.problems), name
        ) from None
    warnings = warnings_of(scenario)
    root = files.nodes(data, source=name) if warnings else None
    for warning in warnings:
        typer.echo(f"warning: {name}: {warning}{files.line_of(root, warning)}", err=True)
    return scenario


def _only(data: bytes, name: str) -> Any:
    from slack.cli.inputs import files

    found = list(files.documents(data, source=name, example=_EXAMPLE))
    if not found:
        raise UserError(f"{name}: there is no scenario in it; examples/scenarios has some")
    if len(found) > 1:
        raise UserError(f"{name}: there are {len(found)} documents in it; give one scenario a file")
    return found[0]


def save(path: Path, document: Mapping[str, Any]) -> None:
    """Write a scenario as JSON, one line a workload: those of a trace are long, the rest is for people to edit.

    Raises:
        UserError: when it cannot be written.
    """
    from slack.process.atomic_write import write_atomically

    texts = [f'"{key}": {json.dumps(value, indent=2)}' for key, value in document.items() if key != "workloads"]
    workloads = ",\n".join(json.dumps(workload) for workload in document["workloads"])
    texts.append(f'"workloads": [\n{workloads}\n]')
    try:
        write_atomically(path, ("{\n" + ",\n".join(texts) + "\n}\n").encode())
    except OSError as error:
        raise UserError(f"--scenario-only: {path}: {(error.strerror or str(error)).lower()}") from None


def read_trace_file(path: Path) -> "Trace":
    """Read a trace file.

    Raises:
        UserError: where it cannot be read, or the extra `traces` is not installed.
        InvalidTrace: for what is no trace, with column and row.
    """
    require_extra("pyarrow", "traces", "traces are Parquet files")
    from slack.simulator.traces.parquet import read_trace

    return read_trace(read_bytes(path), source=name_of(path))


def from_trace(path: Path, prices: Mapping[str, float], node_prices: "NodePrices") -> "Replayed":
    """Return the scenario that plays a trace file again.

    Raises:
        UserError, InvalidTrace: as `read_trace_file`, where its pods fit no node group, and for a price of nothing.
    """
    trace = read_trace_file(path)
    if not any(not pod.initial and not pod.placeholder for pod in trace.pods):
        raise UserError(
            f"{name_of(path)}: no pod came while it was recorded; record for longer, or while pods come: "
            "resource-slack record --out trace.parquet"
        )
    return _replay(trace, name_of(path), prices, node_prices)


def seen_in_trace(path: Path, price: list[str] | None, prices: Path | None = None) -> "Replayed":
    """Return the scenario that plays a trace file again, with prices; what it leaves out is said on stderr.

    Raises:
        UserError, InvalidTrace: as `from_trace`, and for what is no price.
    """
    return report_left_out(from_trace(path, prices_of(price), node_prices_of(prices)))


def report_left_out(found: "Replayed") -> "Replayed":
    """Say on stderr what of a recording is left out."""
    if found.left_out:
        recorded = found.left_out + sum(len(workload["arrivals"]["rows"]) for workload in found.document["workloads"])
        said = f"{found.left_out:,} of {recorded:,} pods fit no node group that was seen, and are left out"
        typer.echo(f"warning: {said}", err=True)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    return found


def node_prices_of(path: Path | None) -> "NodePrices":
    """Read --prices FILE; none where it is not given.

    Raises:
        UserError: naming the file and what is wrong.
    """
    from slack.cli.inputs.files import node_prices
    from slack.cluster.node_prices import NO_PRICES

    return NO_PRICES if path is None else node_prices(path)


def with_prices(scenario: "Scenario", path: Path | None) -> "Scenario":
    """Return a scenario whose node groups cost what --prices FILE says; the others keep their pricePerHour.

    Raises:
        UserError: for a file that cannot be used, and for prices that fit none of its groups.
    """
    if path is None:
        return scenario
    prices = node_prices_of(path)
    groups, priced = [], 0
    for group in scenario.node_groups:
        found = prices.price_of(dict(group.labels), group.allocatable["cpu"], group.allocatable["memory"])
        priced += found is not None
        groups.append(group if found is None else group.model_copy(update={"price_per_hour": found}))
    if not priced:
        known = ", ".join(group.name for group in groups[:_GROUPS_SHOWN])
        raise UserError(
            f"--prices: {name_of(path)}: fits no node group of {scenario.name} ({known}): give them the labels that "
            "it goes by, such as node.kubernetes.io/instance-type, or prices of cpu and memory"
        )
    currency = prices.currency or scenario.currency
    return scenario.model_copy(update={"node_groups": tuple(groups), "currency": currency})


def _replay(trace: "Trace", source: str, prices: Mapping[str, float], node_prices: "NodePrices") -> "Replayed":
    from slack.simulator.traces.replay import UnknownPrice, scenario_of

    try:
        return scenario_of(trace, source=source, prices=prices, node_prices=node_prices)
    except UnknownPrice as error:
        raise UserError(f"--price: {error}") from None


def from_cluster(
    access: ClusterAccess,
    window: timedelta,
    placeholder_namespace: str,
    prices: Mapping[str, float],
    node_prices: "NodePrices",
) -> "Replayed":
    """Return the scenario of a live cluster: the pods and nodes there are, by when they came in the window.

    What has gone meanwhile is not seen; a recording sees it.

    Raises:
        KubeError: when there is no usable configuration, no answer, or no permission.
        UserError: when nothing has come in the window.
    """
    import time

    from slack.cluster import wire
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path
    from slack.simulator.traces.recording import TraceRecording

    now = time.time()
    recording = TraceRecording(now - window.total_seconds(), placeholder_namespace)
    with api_server(access) as connection:
        for node in list_all(connection, resource_path("v1", "nodes"), wire.Node):
            recording.node_seen(node, now)
        for pod in list_all(connection, resource_path("v1", "pods"), wire.Pod):
            recording.pod_seen(pod, now)
    trace = recording.trace(now)
    if not any(not pod.initial and not pod.placeholder for pod in trace.pods):
        raise UserError(
            f"--window: no pod that still runs came in the last {window}; take a longer window, or record for a while: "
            f"resource-slack record --out trace.parquet"
        )
    return _replay(trace, "the cluster", prices, node_prices)


def prices_of(texts: list[str] | None) -> dict[str, float]:
    """Read --price NAME=PER_HOUR, where NAME is a node group or an instance type.

    Raises:
        UserError: for anything else.
    """
    from slack.simulator.scenario.inventory import HIGHEST_PRICE

    prices: dict[str, float] = {}
    for text in texts or []:
        name, _, value = text.rpartition("=")
        try:
            price = float(value)
        except ValueError:
            price = -1.0
        if not name or not 0 <= price <= HIGHEST_PRICE:
            raise UserError(f"--price: {text!r}; write an instance type or node group and its price: m7i.large=0.1")
        if name in prices:
            raise UserError(f"--price: {name!r} is given twice")
        prices[name] = price
    return prices
