"""Coverage-guided fuzzing of what the throttler reads from others. `make fuzz` runs it.

What a gate says, what an agent says to the controller, and the annotation with a pod's dependencies: each is read, or
refused with the reader's own error. What was read can be said again and is then the same, is as bounded as the protocol
has it, and an order of starts never has a container before one that it depends on.
"""

import atheris

from fuzz.running import run
from fuzz.throttling_seeds import seeds

with atheris.instrument_imports(include=["slack.throttler"]):
    from slack.throttler import protocol
    from slack.throttler.graph import InvalidGraph, parse_depends_on
    from slack.throttler.protocol import InvalidThrottlerMessage
    from slack.throttler.reports import messages

_NAMES = ("a", "b", "c")


def try_lines(data: bytes) -> None:
    """What a gate says to an agent."""
    try:
        found = protocol.from_gate(data)
    except InvalidThrottlerMessage:
        return
    line = protocol.encode_line(found)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert protocol.from_gate(line) == found


def try_report(data: bytes) -> None:
    """What goes between agent and controller."""
    try:
        report = messages.decode_report(data)
    except InvalidThrottlerMessage:
        pass
    else:
        assert len(report.containers) <= messages.MAX_CONTAINERS
        assert messages.decode_report(messages.encode(report)) == report
    try:
        answer = messages.decode_answer(data)
    except InvalidThrottlerMessage:
        return
    assert messages.decode_answer(messages.encode(answer)) == answer


def try_annotation(data: bytes) -> None:
    """A pod's dependencies: refused, or an order in which each comes after what it needs."""
    try:
        graph = parse_depends_on(data.decode("utf-8", "replace"), _NAMES)
    except InvalidGraph:
        return
    seen: set[str] = set()
    for level in graph.levels():
        assert all(set(graph.depends_on[name]) <= seen for name in level)
        seen |= set(level)
    assert seen == set(_NAMES)


def try_input(data: bytes) -> None:
    """Try one input on everything."""
    try_lines(data)
    try_report(data)
    try_annotation(data)


if __name__ == "__main__":
    run(try_input, seeds())
