"""A seed that its reader refuses would fuzz nothing but the refusal."""

from fuzz.scoring_seeds import AT, seeds
from slack.loadwatcher import influxql, metrics_api, promql, verdicts
from slack.loadwatcher.decoding import decode as read_payload
from slack.loadwatcher.node_names import KnownNode
from slack.loadwatcher.payload import MetricType
from slack.loadwatcher.readings import ReadingKey, Statistic
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.extender import decode as read_request
from slack.scorer.extender import decode_preemption as read_preemption
from slack.scorer.model import Weighted
from slack.scorer.record import read_line
from slack.scorer.rules import Prediction
from slack.scorer.scoring import score


def test_each_seed_of_the_fuzzer_is_read_and_has_something_in_it() -> None:
    own = seeds()
    for kind in ("request with names", "request with nodes"):
        assert read_request(own.pop(kind)).names[0] == "a"
    assert [victim.uid for victim in read_preemption(own.pop("preemption")).victims["a"].pods or ()] == ["u"]
    for kind in ("payload", "payload of upstream"):
        assert [metric.value for metric in read_payload(own.pop(kind)).report.nodes["a"].metrics] == [12.5]
    assert [dropped.node for dropped in verdicts.decode(own.pop("analysis")).dropped] == ["a"]
    latest, observed = (
        ReadingKey(statistic, MetricType.CPU) for statistic in (Statistic.LATEST, Statistic.OBSERVED_AT)
    )
    assert promql.decode(own.pop("answer of Prometheus"), "nodename", latest) == {"a": 12.5}
    assert promql.decode(own.pop("times of Prometheus"), "nodename", observed) == {"a": AT}
    answer = own.pop("answer of InfluxDB")
    for question in influxql.questions({}, influxql.TAG, int(AT)):
        assert all("a" in values for values in influxql.decode(answer, influxql.TAG, question).values())
    nodes = {"a": KnownNode("a", cpu_millis=4000, memory_bytes=8 << 30)}
    assert [sample.node for sample in metrics_api.decode(own.pop("answer of Metrics Server"), nodes)] == ["a"]
    recorded = read_line(own.pop("record"))
    scores = score(recorded.basis((Weighted(TargetLoadPacking()),)), recorded.demand(Prediction()))
    assert recorded.nodes.names == ("a",)
    assert scores.total.shape == (1,)
    assert not own
