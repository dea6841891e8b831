"""The page's scripts: each can be read, what it imports is there, and those without elements do what they say.

What the others do is seen in a browser (e2e).
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import quickjs

from slack.cluster.quantity import format_rounded
from slack_operator.placeholders.view import displaced
from slack_operator.web.server import STATIC
from tests.cases import run_for_each

SCRIPTS = sorted(Path(str(STATIC)).glob("*.js"))
IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./([^"]+)";$', re.MULTILINE)


def syntax_error(source: str) -> str:
    """Return what a browser would refuse the script for; '' for nothing. Imports become names that are declared."""
    try:
        quickjs.Context().module(IMPORT.sub(r"let \1;", source))
    except quickjs.JSException as error:
        return str(error) if str(error).startswith("SyntaxError") else ""  # it has no document, and need not
    return ""


@run_for_each("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_read_and_imports_what_is_there(path: Path) -> None:
    source = path.read_text()
    assert syntax_error(source) == ""
    assert len(IMPORT.findall(source)) == len(re.findall(r"^import\b", source, re.MULTILINE)), "one form of import"
    for names, other in IMPORT.findall(source):
        exported = set(
            re.findall(
                r"^export (?:async )?(?:function|const|let|class) (\w+)", (path.parent / other).read_text(), re.M
            )
        )
        assert set(names.split(", ")) <= exported, other


def test_the_page_has_words_for_each_cause_of_a_displacement() -> None:
    causes = {
        getattr(displaced, name) for name in ("PREEMPTED", "RESIZED", "DELETED", "OVERCOMMITTED", "MADE_WAY", "UNSEEN")
    }
    script = next(path.read_text() for path in SCRIPTS if path.name == "displaced.js")
    assert set(re.findall(r"^  (\w+): \"", script, re.MULTILINE)) == causes


def test_what_no_browser_reads_is_noticed() -> None:
    assert "SyntaxError" in syntax_error("const a = ;")
    assert "SyntaxError" in syntax_error('import { percent } from "./format.js";\nconst percent = 1;')
    assert syntax_error('import { percent } from "./format.js";\nexport const a = percent(1);') == ""


def run(script: str, expression: str) -> Any:
    """Evaluate an expression of a script that needs nothing of what it imports."""
    context = quickjs.Context()
    context.eval("Array.prototype.at ??= function (index) { return this[index < 0 ? this.length + index : index]; };")
    source = IMPORT.sub(r"let \1;", (Path(str(STATIC)) / script).read_text())
    context.eval(re.sub(r"^export ", "", source, flags=re.MULTILINE))
    return json.loads(context.eval(f"JSON.stringify({expression})"))


GI, MI = 1 << 30, 1 << 20


@run_for_each(
    ("resource", "value"),
    [
        *(("cpu", value) for value in (0, 1, 500, 999, 1000, 1005, 2650, 12345, 38500, 38550, 140000, 1234567)),
        *(("memory", value) for value in (0, 1, 1536, 5 * MI, 256 * MI, GI - 1, GI, 1280 * MI, 1331 * MI)),
        *(("memory", value) for value in (99 * GI + GI // 2, 100 * GI + GI // 2, 101 * GI + GI // 2, 5 << 40)),
        ("ephemeral-storage", 3 * GI),
        ("hugepages-2Mi", 64 * MI),
        ("nvidia.com/gpu", 8),
    ],
)
def test_an_amount_is_written_as_in_the_columns_of_kubectl(resource: str, value: int) -> None:
    assert run("quantities.js", f"amount({json.dumps(resource)}, {value})") == format_rounded(resource, value)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(2000, 1700, "2000m of 1700m"), (0, 2650, "0 of 2650m"), (2000, 4000, "2 of 4"), (1500, 2000, "1500m of 2000m")],
)
def test_a_share_is_written_in_one_unit(part: int, whole: int, text: str) -> None:
    assert run("quantities.js", f'share("cpu", {part}, {whole})') == text
    assert (
        run("quantities.js", f'share("memory", {part << 20}, {GI})') == f"{format_rounded('memory', part << 20)} of 1Gi"
    )


def test_requests_are_written_with_their_resources() -> None:
    assert run("quantities.js", 'requests({cpu: "500m", memory: "64Mi"})') == "500m cpu, 64Mi memory"


def test_a_spike_does_not_set_the_height_of_the_timeline_and_a_rise_does() -> None:
    spike = [10] * 50 + [400] + [11] * 50
    assert run("series.js", f"topOf({spike})") == {"top": 11 * 1.25, "cut": True}
    rise = [10] * 50 + [400] * 10
    assert run("series.js", f"topOf({rise})") == {"top": 400, "cut": False}
    assert run("series.js", "topOf([null, 0, 0, 3])") == {"top": 3, "cut": False}
    assert run("series.js", "topOf([])") == {"top": 0, "cut": False}


def test_a_range_shows_the_steps_of_its_time_and_the_sum_of_all_policies() -> None:
    made = "(() => { const s = new Series(5); for (let t = 0; t < 100; t += 4)"
    made += " s.add(1000 + t, { a: [t, 50 - t, 0, 0, t], b: [1, 1, 1, 1, 1] }); return s; })()"
    shown = run("series.js", f"{made}.within(20, '')")
    assert shown["at"] == [1080, 1088, 1096]
    assert shown["steps"][0] == [85, -33, 1, 1, 85], "the last of desired, the worst of the others"
    assert [step[0] for step in run("series.js", f"{made}.within(20, 'a')")["steps"]] == [84, 92, 96]
    assert len(run("series.js", f"{made}.within(9999, '')")["at"]) == 13


def test_tiles_are_filled_from_below_and_crossed_where_nothing_can_start() -> None:
    shares = "{ pods: [0.5, 0, 0.25], slack: [0.25, 0, 0.01], kept: [0, 0, 0] }"
    paint = '{ free: 1, pods: 2, slack: 3, "slack-deep": 4, away: 5 }'
    drawn = "(() => { const out = new Uint32Array(200); const layout = layoutOf(3, 20, 8);"
    drawn += f" drawTiles(out, 20, [0, 1, 2], layout, {shares}, (node) => node === 1, {paint}, 1);"
    drawn += " return [layout, [...out]]; })()"
    layout, flat = run("tiles.js", drawn)
    assert (layout["columns"], layout["pitch"], layout["rows"]) == (2, 9, 2)
    rows = [flat[start : start + 20] for start in range(0, 160, 20)]
    assert [row[0] for row in rows] == [1, 1, 3, 3, 2, 2, 2, 2]
    assert [row[8] for row in rows] == [0] * 8, "the gap stays free"
    assert [rows[y][9 + y] for y in range(8)] == [5] * 8
    assert rows[0][11] == 1
    assert run("tiles.js", 'pixel(" #31688e")') == 0xFF8E6831


def test_capacity_that_is_kept_free_has_stripes_on_the_colour_of_what_is_free() -> None:
    shares = "{ pods: [0.5, 0.5], slack: [0.5, 0.5], kept: [0, 0.5] }"
    paint = '{ free: 1, pods: 2, slack: 3, "slack-deep": 4, away: 5 }'
    drawn = "(() => { const out = new Uint32Array(40 * 16); const layout = layoutOf(2, 40, 16);"
    drawn += f" drawTiles(out, 40, [0, 1], layout, {shares}, () => false, {paint}, 1); return [layout, [...out]]; }})()"
    layout, flat = run("tiles.js", drawn)
    at = layout["pitch"]
    assert {pixel for row in range(8) for pixel in flat[row * 40 : row * 40 + 16]} == {3, 4}
    assert {pixel for row in range(8) for pixel in flat[row * 40 + at : row * 40 + at + 16]} == {1, 3}
    assert {pixel for row in range(8, 16) for pixel in flat[row * 40 + at : row * 40 + at + 16]} == {2}


def test_a_node_is_described_with_the_capacity_that_is_kept_on_it() -> None:
    view = "{ pods: [5, 5, 3], placeholders: [2, 2, 0], unbound: [0, 2, 0] }"
    said = run("map.js", f"(count = (n, what) => `${{n}} ${{what}}`, [0, 1, 2].map((node) => podsOf({view}, node)))")
    assert said == [
        "5 pod, 2 of them placeholders",
        "3 pod, 0 of them placeholders; capacity kept free for 2 unbound placeholder",
        "3 pod, 0 of them placeholders",
    ]


def cost(nodes: float, per_hour: float | None, node: float | None = None, currency: str = "EUR") -> dict[str, Any]:
    return {"nodes": nodes, "perHour": per_hour, "currency": currency, "nodePerHour": node}


def test_policies_together_cost_money_where_all_have_prices_else_nodes() -> None:
    def total(*costs: dict[str, Any] | None) -> Any:
        return run("money.js", f"totalCost({json.dumps([{'cost': each} for each in costs])})")

    assert total(cost(1.2, 0.48), cost(1, 0.4)) == ["0.88 EUR", "per hour, 642 EUR per month"]
    assert total(cost(1, 0.5, currency="")) == ["0.5", "per hour, 365 per month"]
    assert total(cost(1.2, None), cost(1, 0.4), None) == ["2.2", "nodes"]
    assert total(cost(1, 1), cost(1, 1, currency="USD")) == ["2", "nodes"]
    assert total(None) is None


def test_empty_nodes_cost_what_those_of_their_policies_do() -> None:
    policies = json.dumps([{"name": "web", "cost": cost(1, 1, 0.4)}, {"name": "batch", "cost": cost(1, None)}])
    assert run("money.js", f"nodesCost(new Map([['web', 3]]), {policies})") == "1.2 EUR per hour, 876 EUR per month"
    mixed = run("money.js", f"nodesCost(new Map([['web', 3], ['batch', 1]]), {policies})")
    assert mixed == "4 nodes"
    assert run("money.js", f"nodesCost(new Map([['', 1]]), {policies})") == "1 node"


@pytest.mark.parametrize(
    ("since", "answer"),
    [
        (None, "Not known: this is a standby"),
        (1_800_000_000.0, "Not known since 08:00:00 UTC: no operator leads"),
        (1_799_900_000.0, "Not known since 2027-01-14 04:13:20 UTC: no operator leads"),
    ],
)
def test_where_nobody_leads_the_headline_says_since_when_nothing_is_known(since: float | None, answer: str) -> None:
    state = {"at": 1_800_000_050.0, "now": 1_800_000_060.0, "leading": False, "stale": "", "intervalSeconds": 10.0}
    state |= {"policies": [], "vacantSince": since}
    assert run("answer.js", f"answerOf({json.dumps(state)}, 5, {{kind: 'live', silentSeconds: 1}})") == ["?", answer]
