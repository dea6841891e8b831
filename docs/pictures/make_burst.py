"""Write docs/pictures/burst.svg: a burst of a hundred pods into slack, preempted one by one, and with way made for it.

Usage:
    python docs/pictures/make_burst.py > docs/pictures/burst.svg     # make pictures

Both are played by the simulator, with the costs that were measured (docs/fidelity.md); the same code draws the same
bytes.
"""

import sys
from html import escape

from slack.simulator.model.kinds import PodKind
from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import parse_scenario

PODS, AT_SECONDS = 100, 600
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 300, 56, 58, 20, 44
LAST_SECONDS = 10
STYLE = """
  .paper { fill: #ffffff }  .axis { stroke: #b8c2cc; fill: none }  .name { fill: #1b2733; font-weight: 600 }
  .small { fill: #4a5866 }  .one { stroke: #b07c2f; fill: none }  .way { stroke: #2f6db0; fill: none }
  .one-text { fill: #8a5f1f }  .way-text { fill: #24558a }  .late { fill: #b07c2f; opacity: 0.1 }
  text { font-family: DejaVu Sans, Verdana, Arial, sans-serif }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14191f }  .axis { stroke: #44515e }  .name { fill: #eef3f8 }  .small { fill: #b4c0cc }
    .one { stroke: #d9a352 }  .way { stroke: #7fa3d6 }  .one-text { fill: #e5b872 }  .way-text { fill: #9dbbe4 }
  }
"""


class _Watched(Simulation):
    """A run that notes when each pod of the burst has its node."""

    def bound(self, row: int, kind: PodKind) -> None:
        super().bound(row, kind)
        if kind.name.endswith("/burst"):
            times = self.__dict__.setdefault("bound_at", [])
            times.append(self.clock.now + self.scenario.scheduler.bind_seconds - AT_SECONDS)


def waits(*, make_way: bool) -> list[float]:
    """Return after how many seconds each pod of the burst has its node."""
    extra = {"floor": {"cpu": "60", "memory": "1Gi"}, "minRate": 0}
    spec = {"extraCapacity": extra, "cover": {"mode": "None"}, "granularity": 16}
    burst = {
        "name": "burst",
        "requests": {"cpu": "500m", "memory": "16Mi"},
        "life": {"kind": "constant", "seconds": 600},
        "arrivals": {"kind": "bursts", "size": PODS, "at": [f"{AT_SECONDS}s"]},
    }
    there = {
        "name": "api",
        "requests": {"cpu": "500m", "memory": "16Mi"},
        "arrivals": {"kind": "deployment", "replicas": 520},
    }
    nodes = {"allocatable": {"cpu": "8", "memory": "32Gi"}, "startUp": {"kind": "constant", "seconds": 60}}
    document = {
        "duration": "15m",
        "nodeGroups": [{"name": "general", "initial": 40, **nodes}],
        "workloads": [there, burst],
        "operator": {"makeWay": make_way},
        "slack": {"kind": "policies", "policies": [{"name": "default", "spec": spec}]},
    }
    run = _Watched(parse_scenario(document, source="burst"))
    run.run()
    return sorted(run.__dict__["bound_at"])


def _x(seconds: float) -> float:
    return LEFT + min(seconds, LAST_SECONDS) / LAST_SECONDS * (WIDTH - LEFT - RIGHT)


def _y(pods: float) -> float:
    return HEIGHT - BOTTOM - pods / PODS * (HEIGHT - TOP - BOTTOM)


def _curve(kind: str, times: list[float]) -> str:
    path, number = f"M{_x(0):.1f},{_y(0):.1f}", 0
    for number, seconds in enumerate(times, 1):
        path += f" H{_x(seconds):.1f} V{_y(number):.1f}"
    return f'<path class="{kind}" stroke-width="2.5" d="{path} H{_x(LAST_SECONDS):.1f}"/>'


def _text(kind: str, x: float, y: float, words: str, *, size: int = 12, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def draw(one_by_one: list[float], with_way: list[float]) -> str:
    """Return the picture."""
    title = f"{PODS} pods into slack: pods with a node, by seconds after they came"
    bottom = _y(0)
    body = [
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<rect class="late" x="{_x(2):.1f}" y="{TOP}" width="{_x(10) - _x(2):.1f}" height="{bottom - TOP:.1f}"/>',
        _text("name", LEFT, 26, title, size=14),
        _text("small", LEFT, 44, "shaded: not an instant start (after 2 s)"),
    ]
    for seconds in range(0, LAST_SECONDS + 1, 2):
        body.append(f'<path class="axis" d="M{_x(seconds):.1f},{TOP} V{bottom:.1f}"/>')
        body.append(_text("small", _x(seconds), bottom + 18, f"{seconds} s", anchor="middle"))
    for pods in range(0, PODS + 1, 25):
        body.append(f'<path class="axis" d="M{LEFT},{_y(pods):.1f} H{_x(LAST_SECONDS):.1f}"/>')
        body.append(_text("small", LEFT - 8, _y(pods) + 4, str(pods), anchor="end"))
    body += [_curve("one", one_by_one), _curve("way", with_way)]
    last = f"way is made: the last after {with_way[-1]:.1f} s"
    body.append(_text("way-text", _x(with_way[-1]) + 14, _y(PODS * 0.88), last))
    late = ("one preemption after another:", f"the last after {one_by_one[-1]:.1f} s")
    for line, words in enumerate(late):
        body.append(_text("one-text", _x(one_by_one[PODS // 2]) + 24, _y(PODS * 0.36) + 16 * line, words))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return "\n".join(
        [f'{head} role="img">', f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"]
    )


def main() -> None:
    """Play both, draw."""
    sys.stdout.write(draw(waits(make_way=False), waits(make_way=True)))


if __name__ == "__main__":
    main()
