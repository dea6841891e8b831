"""Coverage-guided fuzzing of what the scorer and the load watcher read from others. `make fuzz` runs it.

What the scheduler asks, what a load watcher answers in either format, recorded decisions, and what Prometheus, InfluxDB
and Metrics Server answer a load watcher: each is read, or refused with the reader's own error. What was read can be
used: figures of a payload are finite and not negative, a recorded decision can be made again and its scores are 0 to
100, and whatever a provider says, the analyser leaves of it what our own reader takes whole.
"""

import math
from collections.abc import Mapping
from contextlib import suppress

import atheris
import numpy as np

from fuzz.running import run
from fuzz.scoring_seeds import AT, seeds

with atheris.instrument_imports(include=["slack.scorer", "slack.loadwatcher", "slack.cluster"]):
    from slack.cluster.requests import RequestError
    from slack.loadwatcher import influxql, metrics_api, promql, verdicts
    from slack.loadwatcher.analysis import Analyser
    from slack.loadwatcher.decoding import InvalidPayload, decode
    from slack.loadwatcher.encoding import ReportFormat, encode
    from slack.loadwatcher.node_names import AsTheyAre, KnownNode
    from slack.loadwatcher.payload import MetricType, RollupWindow
    from slack.loadwatcher.promql import InvalidProviderAnswer
    from slack.loadwatcher.readings import ReadingKey, Readings, Statistic, Values
    from slack.loadwatcher.reports import assemble
    from slack.loadwatcher.samples import Rings
    from slack.loadwatcher.verdicts import InvalidVerdicts
    from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
    from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
    from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
    from slack.scorer.extender import InvalidRequest, decode_preemption, filter_reply, preemption_reply
    from slack.scorer.extender import decode as decode_request
    from slack.scorer.inputs.prediction import demand_of
    from slack.scorer.model import HIGHEST_SCORE, Weighted
    from slack.scorer.record import InvalidRecord, read_line
    from slack.scorer.rules import Prediction
    from slack.scorer.scoring import score

_PREDICTION = Prediction()
_ALGORITHMS = (
    Weighted(TargetLoadPacking()), Weighted(LoadVariationRiskBalancing()), Weighted(LowRiskOverCommitment())
)  # fmt: skip
_NODES: Mapping[str, KnownNode] = {"a": KnownNode("a", cpu_millis=4000, memory_bytes=8 << 30)}
_KEYS = (
    *(ReadingKey(statistic, MetricType.CPU) for statistic in (Statistic.LATEST, Statistic.OBSERVED_AT)),
    *(
        ReadingKey(statistic, MetricType.CPU, RollupWindow.FIVE_MINUTES)
        for statistic in (Statistic.AVERAGE, Statistic.DEVIATION)
    ),
)


def try_request(data: bytes) -> None:
    """What the scheduler sends: a pod that is read, or refused, and an answer to /filter or /preempt."""
    with suppress(InvalidRequest):
        preemption = decode_preemption(data)
        preemption_reply(preemption, list(preemption.victims)[:1])
    try:
        asked = decode_request(data)
    except InvalidRequest:
        return
    filter_reply(asked, dict.fromkeys(asked.names[:1], "hot"))
    try:
        demand_of(asked.pod.spec, _PREDICTION, status=asked.pod.status)
    except ValueError:  # of a quantity: the request is refused with it
        return


def try_payload(data: bytes) -> None:
    """What a load watcher sends: its figures can be told on, in both formats."""
    try:
        found = decode(data)
    except InvalidPayload:
        return
    for load in found.report.nodes.values():
        assert all(math.isfinite(metric.value) and metric.value >= 0 for metric in load.metrics)
    for style in ReportFormat:
        encode(found.report, style)


def try_record(data: bytes) -> None:
    """A line of recorded decisions: read, it can be made again."""
    try:
        recorded = read_line(data)
    except InvalidRecord:
        return
    try:
        demand = recorded.demand(_PREDICTION)
    except RequestError:
        return
    with np.errstate(all="ignore"):
        total = score(recorded.basis(_ALGORITHMS), demand).total
    assert ((total >= 0) & (total <= HIGHEST_SCORE)).all()


def try_verdicts(data: bytes) -> None:
    """What the analyser of a load watcher says: read, it can be told on."""
    try:
        found = verdicts.decode(data)
    except InvalidVerdicts:
        return
    assert verdicts.decode(verdicts.encode(found)) == found


def try_prometheus(data: bytes) -> None:
    """The answer to each question of a fetch, all alike."""
    try:
        values: dict[ReadingKey, Values] = {key: promql.decode(data, "nodename", key) for key in _KEYS}
    except InvalidProviderAnswer:
        return
    try_readings(Readings(AT, values))


def try_influxdb(data: bytes) -> None:
    """The answer to each question of a fetch, all alike."""
    values: dict[ReadingKey, dict[str, float]] = {}
    for question in influxql.questions({}, influxql.TAG, int(AT)):
        try:
            found = influxql.decode(data, influxql.TAG, question)
        except InvalidProviderAnswer:
            return
        for key, own in found.items():
            values.setdefault(key, {}).update(own)
    try_readings(Readings(AT, values))


def try_metrics_server(data: bytes) -> None:
    """One sample of all nodes."""
    rings = Rings(15.0)
    with np.errstate(all="ignore"):  # a figure beyond what a ring holds is infinite there, and dropped
        try:
            rings.add_samples(metrics_api.decode(data, _NODES))
        except InvalidProviderAnswer:
            return
        try_readings(rings.readings(AT))


def try_readings(readings: Readings) -> None:
    """What is left of a fetch is written in both formats, and our own reader leaves nothing of it out."""
    judgement = Analyser(max_age_seconds=300.0).judge(readings, AT)
    for report in assemble(readings, judgement, AsTheyAre(), source="s").reports.values():
        for style in ReportFormat:
            read = decode(encode(report, style))
            assert not read.ignored
            assert read.report.nodes.keys() == report.nodes.keys()


def try_input(data: bytes) -> None:
    """Try one input on everything."""
    for reader in (
        try_request,
        try_payload,
        try_record,
        try_verdicts,
        try_prometheus,
        try_influxdb,
        try_metrics_server,
    ):
        reader(data)


if __name__ == "__main__":
    run(try_input, seeds())
