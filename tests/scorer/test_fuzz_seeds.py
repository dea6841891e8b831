"""A seed that its reader refuses would fuzz nothing but the refusal."""

from fuzz.scoring_seeds import seeds
from slack.loadwatcher.decoding import decode as read_payload
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.extender import decode as read_request
from slack.scorer.model import Weighted
from slack.scorer.record import read_line
from slack.scorer.rules import Prediction
from slack.scorer.scoring import score


def test_each_seed_of_the_fuzzer_is_read_and_has_something_in_it() -> None:
    own = seeds()
    for kind in ("request with names", "request with nodes"):
        assert read_request(own.pop(kind)).names[0] == "a"
    for kind in ("payload", "payload of upstream"):
        assert [metric.value for metric in read_payload(own.pop(kind)).report.nodes["a"].metrics] == [12.5]
    recorded = read_line(own.pop("record"))
    scores = score(recorded.basis((Weighted(TargetLoadPacking()),)), recorded.demand(Prediction()))
    assert recorded.nodes.names == ("a",)
    assert scores.total.shape == (1,)
    assert not own
