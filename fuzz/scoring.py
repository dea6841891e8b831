"""Coverage-guided fuzzing of what the scorer and the load watcher read from others. `make fuzz` runs it.

What the scheduler asks, what a load watcher answers in either format, and recorded decisions: each is read, or refused
with the reader's own error. What was read can be used: figures of a payload are finite and not negative, a recorded
decision can be made again, and its scores are 0 to 100.
"""

import math
import sys
from pathlib import Path

import atheris
import numpy as np

from fuzz.scoring_seeds import seeds

with atheris.instrument_imports(include=["slack.scorer", "slack.loadwatcher", "slack.cluster"]):
    from slack.cluster.requests import RequestError
    from slack.loadwatcher.decoding import BadPayload, decode
    from slack.loadwatcher.encoding import Format, encode
    from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
    from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
    from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
    from slack.scorer.extender import BadRequest, filter_reply
    from slack.scorer.extender import decode as decode_request
    from slack.scorer.inputs.prediction import demand_of
    from slack.scorer.model import HIGHEST_SCORE, Weighted
    from slack.scorer.record import BadRecord, read_line
    from slack.scorer.rules import Prediction
    from slack.scorer.scoring import score

_PREDICTION = Prediction()
_ALGORITHMS = (
    Weighted(TargetLoadPacking()), Weighted(LoadVariationRiskBalancing()), Weighted(LowRiskOverCommitment())
)  # fmt: skip


def try_request(data: bytes) -> None:
    """What the scheduler sends: a pod that is read, or refused, and an answer to /filter."""
    try:
        asked = decode_request(data)
    except BadRequest:
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
    except BadPayload:
        return
    for load in found.report.nodes.values():
        assert all(math.isfinite(metric.value) and metric.value >= 0 for metric in load.metrics)
    for style in Format:
        encode(found.report, style)


def try_record(data: bytes) -> None:
    """A line of recorded decisions: read, it can be made again."""
    try:
        recorded = read_line(data)
    except BadRecord:
        return
    try:
        demand = recorded.demand(_PREDICTION)
    except RequestError:
        return
    with np.errstate(all="ignore"):
        total = score(recorded.basis(_ALGORITHMS), demand).total
    assert ((total >= 0) & (total <= HIGHEST_SCORE)).all()


def try_input(data: bytes) -> None:
    """Try one input on everything."""
    try_request(data)
    try_payload(data)
    try_record(data)


def main() -> None:
    """Give atheris its arguments: those of libFuzzer, such as -max_total_time=120; the last one is the corpus."""
    corpus = Path(sys.argv[-1])
    if corpus.is_dir():
        for number, seed in enumerate(seeds().values()):
            (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, try_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
