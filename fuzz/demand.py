"""Coverage-guided fuzzing of what demand reads from others. `make fuzz` runs it.

A queue's figures, what a container says of itself, a line of a recording, the name of a queue: each is read, or refused
with the reader's own error. What was read can be said again and is then the same; a decision adds no container above a
limit; a recording that is read can be played.
"""

import atheris

from fuzz.demand_seeds import seeds
from fuzz.running import run

with atheris.instrument_imports(include=["slack.demand"]):
    from slack.demand import lines, reports, trace
    from slack.demand.guards import apply_guards
    from slack.demand.model import Guards
    from slack.demand.subjects import InvalidSubject, Subject

_BEGUN = trace.decode(seeds()["settings"], 1)


def try_line(data: bytes) -> None:
    """A queue's figures: decided within the limits, by the table as written and with the guards on top."""
    for guards in (Guards(), Guards.parse("none")):
        try:
            _, figures = lines.read_line(data)
        except lines.InvalidQueueLine:
            return
        decision = apply_guards(figures, guards)
        assert decision.add >= 0
        assert decision.unmet >= 0
        above = decision.add + figures.total - figures.action_limit
        assert decision.add == 0 or above <= max(figures.total - figures.action_limit, 0), decision
        assert lines.decision_line(data, guards).endswith(b"\n")


def try_report(data: bytes) -> None:
    """What a container says of itself."""
    try:
        report = reports.decode_report(data)
    except reports.InvalidReport:
        return
    assert len(report.last_run_ms) <= reports.LAST_RUNS
    assert reports.decode_report(reports.encode_report(report)) == report


def try_trace(data: bytes) -> None:
    """A line of a recording: read, written and read again, and played after a beginning."""
    try:
        line = trace.decode(data, 2)
    except trace.InvalidRecording:
        return
    assert trace.decode(trace.encode(line), 2) == line
    try:
        totals = trace.replay([_BEGUN, line])
    except trace.InvalidRecording:
        return
    assert totals.ticks <= 1


def try_subject(data: bytes) -> None:
    """The name of a queue: itself again, or refused."""
    text = data.decode("utf-8", "replace")
    try:
        subject = Subject.parse(text)
    except InvalidSubject:
        return
    assert str(subject) == text
    assert Subject.from_action(subject.namespace, subject.action, subject.memory_mib) == subject


def try_input(data: bytes) -> None:
    """Try one input on everything."""
    try_line(data)
    try_report(data)
    try_trace(data)
    try_subject(data)


if __name__ == "__main__":
    run(try_input, seeds())
