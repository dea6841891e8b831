"""A seed that its reader refuses would fuzz nothing but the refusal."""

from fuzz.demand_seeds import seeds
from slack.demand import lines, reports, trace
from slack.demand.subjects import Subject


def test_each_seed_of_the_fuzzer_is_read_and_has_something_in_it() -> None:
    own = seeds()
    queue, figures = lines.read_line(own.pop("line"))
    assert (queue, figures.stale, figures.node_room) == ("q", 2, 2)
    assert reports.decode_report(own.pop("report")).last_run_ms == (4.0, 8.5)
    settings, tick = trace.decode(own.pop("settings"), 1), trace.decode(own.pop("tick"), 2)
    totals = trace.replay([settings, tick])
    assert (totals.ticks, totals.created) == (1, 1)
    assert Subject.parse(own.pop("subject").decode()).memory_mib == 256
    assert not own
