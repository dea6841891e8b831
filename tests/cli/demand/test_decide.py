"""`demand decide`: the example's lines, in and out, as programs of others read them."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_documents import golden

QUEUES = Path(__file__).parents[3] / "examples" / "queues.jsonl"


def test_the_example_is_decided_as_ever(run: Run) -> None:
    for guards in ("all", "none"):
        found = run("demand", "decide", "--lines", str(QUEUES), "--guards", guards)
        assert found.code == 0, found.stderr
        decided = [json.loads(line) for line in found.stdout.splitlines()]
        assert len(decided) == len(QUEUES.read_text().splitlines())
        golden(f"demand-decide.{guards}", decided)


def test_a_line_that_is_no_queue_s_figures_is_told_with_its_number(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "queues.jsonl"
    file.write_text(QUEUES.read_text() + '{"namespace_limit": -1, "action_limit": 1}\n')
    found = run("demand", "decide", "--lines", str(file))
    assert found.code == 2
    assert "namespace_limit" in found.stderr
    assert str(len(QUEUES.read_text().splitlines()) + 1) in found.stderr
    assert "Traceback" not in found.stderr
