"""Load on the page: figures of the cluster's nodes only, when they were seen, and nothing where nobody was named."""

from collections.abc import Mapping

import pytest

from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup, RollupWindow, Span
from slack.process.running import CannotStart
from slack.process.settings import InvalidSettings, load
from slack_operator import app
from slack_operator.runtime.load_source import LoadSource
from slack_operator.settings import OperatorSettings
from slack_operator.web.load import LoadBoard, columns_of
from tests.operator.web.test_scripts import run
from tests.operator.web.test_web import settled
from tests.operator.web.test_web_server import ask, serving


def node(cpu: float | None, memory: float, *, at: int | None = None, rollup: Rollup = Rollup.AVG) -> NodeLoadFigures:
    figures = [(MetricType.CPU, rollup, cpu), (MetricType.CPU, Rollup.STD, 2.26), (MetricType.MEMORY, rollup, memory)]
    return NodeLoadFigures(tuple(Metric(k, k, r, v) for k, r, v in figures if v is not None), {}, {}, at)


def report(nodes: Mapping[str, NodeLoadFigures], end: int = 400) -> LoadReport:
    return LoadReport(end, Span(RollupWindow.FIVE_MINUTES, end - 300, end), "x", dict(nodes))


def board(told: LoadReport | None, failing: str | None = None) -> LoadBoard:
    source = LoadSource("http://127.0.0.1:1", 60.0, lambda: None)
    source.reports = {} if told is None else {told.window.duration: told}
    source.failing = failing
    return LoadBoard(source)


def test_columns_have_the_clusters_nodes_with_units_and_times_and_count_other_names() -> None:
    told = report({"a": node(41.26, 63.0, at=390), "stranger": node(1.0, 1.0), "b": node(None, 7.0)})
    columns = columns_of(told, 3, ["b", "a", "c"])
    assert (columns.names, columns.unmatched, columns.version, columns.window_seconds) == (["a", "b"], 1, 3, 300)
    assert columns.observed_at_unix_seconds == [390, 400], "where a watcher does not say, the window's end counts"
    assert (columns.cpu_average_percent, columns.cpu_deviation_percent) == ([41.3, None], [2.3, 2.3])
    assert (columns.memory_average_percent, columns.memory_deviation_percent) == ([63.0, 7.0], [None, None])


def test_upstreams_latest_stands_in_for_a_mean_and_nonsense_is_bounded() -> None:
    told = report({"a": node(1e300, 12.0, rollup=Rollup.LATEST)})
    columns = columns_of(told, 1, ["a"])
    assert (columns.cpu_average_percent, columns.memory_average_percent) == ([1000.0], [12.0])


def test_the_version_grows_with_each_other_report_and_a_failure_is_said_in_words() -> None:
    shown = board(None)
    assert (shown.view().version, shown.view().window_end_unix_seconds) == (0, None)
    first = report({"a": node(1.0, 1.0)})
    shown.source.reports = {RollupWindow.FIVE_MINUTES: first}
    assert (shown.view().version, shown.view().window_end_unix_seconds, shown.view().problem) == (1, 400, None)
    assert shown.report() == (1, first)
    shown.source.reports = {RollupWindow.FIVE_MINUTES: report({"a": node(2.0, 1.0)}, 460)}
    shown.source.failing = "unreachable"
    assert (shown.view().version, shown.view().problem) == (2, "the load watcher cannot be reached")


def test_without_a_load_watcher_the_page_is_told_nothing_of_load() -> None:
    _, shown = settled()
    with serving(shown) as web:
        assert ask(web, "/api/state").json["state"]["load"] is None
        answer = ask(web, "/api/load")
        assert (answer.status, answer.json["error"]) == (404, "no load watcher is named: --web-load-watcher")


def test_the_pages_documents_name_their_units() -> None:
    _, shown = settled()
    _, _, figures = shown.last()
    assert figures is not None
    assert figures.observation is not None
    name = figures.observation.snapshot.nodes.names[0]
    with serving(shown, load=board(report({name: node(41.0, 63.0)}), "status")) as web:
        assert ask(web, "/api/state").json["state"]["load"] == {
            "version": 1,
            "windowEndUnixSeconds": 400,
            "windowSeconds": 300,
            "maxAgeSeconds": 300.0,
            "problem": "the load watcher answers with an error",
        }
        assert ask(web, "/api/load").json == {
            "version": 1,
            "windowSeconds": 300,
            "names": [name],
            "observedAtUnixSeconds": [400],
            "cpuAveragePercent": [41.0],
            "cpuDeviationPercent": [2.3],
            "memoryAveragePercent": [63.0],
            "memoryDeviationPercent": [None],
            "unmatched": 0,
        }
    with serving(shown, load=board(None)) as web:
        assert ask(web, "/api/load").status == 503


def test_an_address_that_is_none_is_refused_and_a_missing_authority_ends_the_process() -> None:
    with pytest.raises(InvalidSettings, match=r"--web-load-watcher: should be the address of a load watcher"):
        load(OperatorSettings, {"web_load_watcher": "watcher:2020"}, {}, files={})
    flags = {"web_load_watcher": "https://watcher:2020/watcher", "web_load_watcher_ca_file": "/nowhere/ca.crt"}
    settings = load(OperatorSettings, flags, {}, files={})
    assert settings.web_load_watcher == "https://watcher:2020"
    with pytest.raises(CannotStart, match=r"--web-load-watcher-ca-file: /nowhere/ca\.crt is no file"):
        app._load(settings)


VIEW = "{ names: ['a', 'b'], resources: "
VIEW += "[{ resource: 'cpu', allocatable: [1000, 3000], pods: [900, 900], system: [0, 300] }] }"
TOLD = "{ windowSeconds: 300, names: ['b', 'x'], observedAtUnixSeconds: [1000, 1000], cpuAveragePercent: [20, 9],"
TOLD += " cpuDeviationPercent: [2.5, null], memoryAveragePercent: [null, 1], memoryDeviationPercent: [null, null] }"
STANDS = "{ version: 1, windowEndUnixSeconds: 1000, windowSeconds: 300, maxAgeSeconds: 300, problem: null }"


def said(expression: str) -> object:
    made = "(() => { ago = (at, now) => `${now - at} s`; count = (n, one) => `${n} ${one}`;"
    made += " rounded = (share) => `${Math.round(share * 100)}%`;"
    return run("load.js", f"{made} const view = {VIEW}; const load = loadOf(view, {TOLD}); return {expression}; }})()")


def test_what_a_node_uses_is_said_with_its_age_and_old_or_future_figures_are_not_known() -> None:
    assert said("describeLoad(load, 1, 1040, 300)") == (
        "Really used over 5 min: cpu 20% ± 2.5, memory not known; 40 s ago."
    )
    assert said("describeLoad(load, 0, 1040, 300)") == "What it really uses is not known."
    assert said("describeLoad(load, 1, 1301, 300)") == (
        "What it really uses is not known: 301 s ago it was cpu 20% ± 2.5, memory not known."
    )
    assert "of the future" in str(said("describeLoad(load, 1, 960, 300)"))


def test_use_stands_beside_requests_of_the_same_nodes_and_is_grey_once_old() -> None:
    assert said(f"loadText(view, load, {STANDS}, 1040)") == {
        "text": "Really used: 20% of cpu where pods request 40%. Of 1 node it is not known.",
        "grey": False,
    }
    old = said(f"loadText(view, load, {{ ...{STANDS}, problem: 'the load watcher cannot be reached' }}, 1400)")
    assert old == {
        "text": "What nodes really use is not known: the newest figures are 400 s old. "
        "The load watcher cannot be reached.",
        "grey": True,
    }
    assert said(f"loadText(view, null, {STANDS}, 1040)") == {
        "text": "What nodes really use is not known yet.",
        "grey": True,
    }


def test_a_bar_is_that_of_the_scarcest_resource_and_says_whether_it_is_old() -> None:
    made = "(() => { const bars = barsOf({ ...view, resources: [{ resource: 'cpu' }, { resource: 'memory' }] },"
    made += " { scarcest: [0, 0] }, load, 1400, 300);"
    made += " return [[...bars.height].map((h) => Math.round(h * 100)), [...bars.fresh]]; })()"
    assert said(made) == [[None, 20], [0, 0]]


def test_a_tile_has_its_bar_at_the_right_and_none_where_nothing_was_ever_known() -> None:
    shares = "{ pods: [1, 1, 1], slack: [0, 0, 0], kept: [0, 0, 0] }"
    paint = "{ free: 1, pods: 2, slack: 3, 'slack-deep': 4, away: 5, load: 6 }"
    bars = "{ height: [0.5, 0.5, NaN], fresh: [1, 0, 1] }"
    drawn = "(() => { const out = new Uint32Array(216); const layout = layoutOf(3, 27, 8);"
    drawn += (
        f" drawTiles(out, 27, [0, 1, 2], layout, {shares}, () => false, {paint}, 1, {bars}); return [...out]; }})()"
    )
    flat = run("tiles.js", drawn)
    top, bottom = flat[:27], flat[7 * 27 :]
    assert top == [2, 2, 2, 2, 2, 0, 1, 1, 0] * 2 + [2, 2, 2, 2, 2, 0, 0, 0, 0]
    assert bottom == [2, 2, 2, 2, 2, 0, 6, 6, 0, 2, 2, 2, 2, 2, 0, 5, 5, 0, 2, 2, 2, 2, 2, 0, 0, 0, 0]
