"""A seed that its reader refuses would fuzz nothing but the refusal."""

from fuzz.throttling_seeds import seeds
from slack.throttler import protocol
from slack.throttler.graph import parse_depends_on
from slack.throttler.reports import messages


def test_each_seed_of_the_fuzzer_is_read_and_has_something_in_it() -> None:
    own = seeds()
    assert protocol.from_gate(own.pop("hello")) == protocol.Hello(token="t")
    assert protocol.from_gate(own.pop("ask")) == protocol.StartRequest(
        container="c", start=1, depends_on=("b",), opened_seconds=61.5, instance="i"
    )
    report = messages.decode_report(own.pop("report"))
    assert (report.slots, [row.start for row in report.containers]) == (2, [2])
    assert messages.decode_answer(own.pop("answer")).every_seconds == 5
    assert parse_depends_on(own.pop("depends on").decode(), ("a", "b", "c")).depends_on["c"]
    assert not own
