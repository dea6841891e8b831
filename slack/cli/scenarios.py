"""Where `simulate` and `tune` take a scenario from: a file, a trace, or a live cluster read once. Only reads.

A problem of a scenario file names the field's path and its line.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slack.cli.inputs import name_of, read_bytes
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.simulator.replay import Replayed
    from slack.simulator.scenario import Scenario
    from slack.simulator.traceformat import Trace

_EXAMPLE = "a scenario, as in examples/scenarios"


def from_file(path: Path) -> "Scenario":
    """Read a scenario file. What can be played and is hardly meant is said on stderr.

    Raises:
        UserError: for what is not YAML, and for a key given twice.
        BadScenario: for what is no scenario, each problem with its field and line.
    """
    from slack.cli import files
    from slack.simulator.scenario import BadScenario, parse_scenario, warnings_of

    name, data = name_of(path), read_bytes(path)
    document = files.json_object(data, source=name)
    if document is None:
        document = _only(data, name)
    try:
        scenario = parse_scenario(document, source=name)
    except BadScenario as error:
        root = files.nodes(data, source=name)
        raise BadScenario(name, tuple(f"{one}{files.line_of(root, one)}" for one in error.problems)) from None
    warnings = warnings_of(scenario)
    root = files.nodes(data, source=name) if warnings else None
    for warning in warnings:
        typer.echo(f"warning: {name}: {warning}{files.line_of(root, warning)}", err=True)
    return scenario


def _only(data: bytes, name: str) -> Any:
    from slack.cli import files

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
    from slack.process.whole_file import write_whole

    texts = [f'"{key}": {json.dumps(value, indent=2)}' for key, value in document.items() if key != "workloads"]
    workloads = ",\n".join(json.dumps(one) for one in document["workloads"])
    texts.append(f'"workloads": [\n{workloads}\n]')
    try:
        write_whole(path, ("{\n" + ",\n".join(texts) + "\n}\n").encode())
    except OSError as error:
        raise UserError(f"--scenario-only: {path}: {(error.strerror or str(error)).lower()}") from None


def read_trace_file(path: Path) -> "Trace":
    """Read a trace file.

    Raises:
        UserError: where it cannot be read, or the extra `traces` is not installed.
        BadTrace: for what is no trace, with column and row.
    """
    need("pyarrow", "traces", "traces are Parquet files")
    from slack.simulator.trace import read_trace

    return read_trace(read_bytes(path), source=name_of(path))


def from_trace(path: Path, prices: Mapping[str, float]) -> "Replayed":
    """Return the scenario that plays a trace file again.

    Raises:
        UserError, BadTrace: as `read_trace_file`, where its pods fit no node group, and for a price of nothing there.
    """
    return _replayed(read_trace_file(path), name_of(path), prices)


def _replayed(trace: "Trace", source: str, prices: Mapping[str, float]) -> "Replayed":
    from slack.simulator.replay import UnknownPrice, scenario_of

    try:
        return scenario_of(trace, source=source, prices=prices)
    except UnknownPrice as error:
        raise UserError(f"--price: {error}") from None


def from_cluster(
    kubeconfig: Path | None,
    context: str | None,
    window: timedelta,
    placeholder_namespace: str,
    prices: Mapping[str, float],
) -> "Replayed":
    """Return the scenario of a live cluster: the pods and nodes there are, by when they came in the window.

    What has gone meanwhile is not seen; a recording sees it.

    Raises:
        KubeError: when there is no usable configuration, no answer, or no permission.
        UserError: when nothing has come in the window.
    """
    import time

    from slack.cli.cluster import Page, listed
    from slack.cluster import wire
    from slack.kube.kubeconfig import connect
    from slack.simulator.recording import Recording

    now = time.time()
    recording = Recording(now - window.total_seconds(), placeholder_namespace)
    connection = connect(kubeconfig, context)
    try:
        for node in listed(connection, "v1", "nodes", Page[wire.Node]):
            recording.node_seen(node, now)
        for pod in listed(connection, "v1", "pods", Page[wire.Pod]):
            recording.pod_seen(pod, now)
    finally:
        connection.close()
    trace = recording.trace(now)
    if not any(not pod.initial and not pod.placeholder for pod in trace.pods):
        raise UserError(
            f"--window: no pod that still runs came in the last {window}; take a longer window, or record for a while: "
            f"resource-slack record --out trace.parquet"
        )
    return _replayed(trace, "the cluster", prices)


def need(module: str, extra: str, why: str) -> None:
    """Say how to install what an optional part needs.

    Raises:
        UserError: when it is not installed.
    """
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise UserError(f"{why}: this needs {module}; install it with: pip install 'resource-slack[{extra}]'")


def prices_of(texts: list[str] | None) -> dict[str, float]:
    """Read --price NAME=PER_HOUR, where NAME is a node group or an instance type.

    Raises:
        UserError: for anything else.
    """
    from slack.simulator.inventory import HIGHEST_PRICE

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
