import json
from pathlib import Path

import pytest

from slack.demand.lines import InvalidQueueLine, decision_line, read_line
from slack.demand.model import Guards, InvalidGuards

EXAMPLES = Path(__file__).parents[2] / "examples" / "queues.jsonl"
LIMITS = {"namespace_limit": 20, "action_limit": 10}


def decided(guards: str = "all", **figures: object) -> dict[str, object]:
    answer: dict[str, object] = json.loads(decision_line(json.dumps(LIMITS | figures).encode(), Guards.parse(guards)))
    return answer


def test_a_line_in_is_a_line_out_with_row_and_reason() -> None:
    answer = decided(queue="media/thumbnail", queued=3, initialized=False)
    assert (answer["queue"], answer["row"], answer["add"], answer["initial"]) == ("media/thumbnail", 5, 1, True)


def test_a_queue_without_others_in_its_namespace_needs_no_figures_of_the_namespace() -> None:
    _, figures = read_line(json.dumps(LIMITS | {"containers": 3, "creating": 2}).encode())
    assert (figures.namespace_containers, figures.namespace_creating) == (3, 2)


def test_what_is_in_flight_with_nobody_waits_for_a_container() -> None:
    answer = decided(in_flight=3)
    assert (answer["row"], answer["add"]) == (7, 1)
    assert decided(in_flight=3, containers=1, concurrency=3)["add"] == 0
    assert not {"throttle", "drop_queued"} & answer.keys()


def test_what_more_containers_had_taken_than_there_are_waits_for_others() -> None:
    """One of a hundred containers is left: what the others had is not its own."""
    figures = {"containers": 1, "concurrency": 4, "mean_duration_ms": 1000}
    assert decided("all", in_flight=4, **figures)["add"] == 0
    assert decided("all", in_flight=400, **figures)["add"] == 9


@pytest.mark.parametrize(
    ("figures", "complaint"),
    [
        ({"queued": -1}, "queued: Expected `int` >= 0"),
        ({"state": "Asleep"}, "state: Invalid enum value 'Asleep'"),
        ({"quued": 1}, "Object contains unknown field `quued`"),
        ({"queued": 2, "stale": 3}, "stale: 3 is more than queued + incoming, which is 2"),
        ({"containers": 3, "namespace_containers": 2}, "containers: 3 is more than namespace_containers, which is 2"),
        ({"namespace_limit": None}, "namespace_limit: Expected `int`, got `null`"),
        ({"stale_window_ms": 5e-324}, "stale_window_ms: Expected `float` >= 1.0"),
        ({"stale_window_ms": 0}, "stale_window_ms: Expected `float` >= 1.0"),
        ({"mean_duration_ms": 1e300}, "mean_duration_ms: Expected `float` <= 1000000000000.0"),
    ],
)
def test_a_bad_line_is_refused_with_its_field(figures: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidQueueLine) as refused:
        read_line(json.dumps(LIMITS | figures).encode())
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff", b"[" * 60_000, b'"' + b"x" * 70_000 + b'"'])
def test_what_is_no_line_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidQueueLine):
        read_line(line)


def test_guards_are_read_as_they_are_written() -> None:
    for text in ("none", "G1,G2,G3,G4,G5", "G2,G5"):
        assert str(Guards.parse(text)) == text
    assert Guards.parse("all") == Guards()
    with pytest.raises(InvalidGuards, match=r"G6 is no guard: all, none, or a list of G1, G2, G3, G4, G5"):
        Guards.parse("G1,G6")


def test_guards_change_what_the_table_says_of_the_examples() -> None:
    lines = EXAMPLES.read_bytes().splitlines()
    written = [json.loads(decision_line(line, Guards.parse("none"))) for line in lines]
    guarded = [json.loads(decision_line(line, Guards())) for line in lines]
    assert [item["row"] for item in written] == [5, 9, 10, 2, 13, 10]
    assert [item["guard"] for item in guarded] == [None, "G1", None, None, "G4", "G5"]
