"""How long the tasks of a page's main thread take, by Chromium's own trace: on the clock, and of the CPU.

What a task takes on the clock grows with whatever else the machine does; what it takes of the CPU does not, so that a
test may judge by it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.harness.product.browser import Visit

_CATEGORIES = ["toplevel", "__metadata"]


@dataclass
class Tasks:
    """The longest tasks of the main thread while it was traced; 0 before its end."""

    clock_ms: int = 0
    cpu_ms: int = 0


@contextmanager
def tasks_of(visit: Visit) -> Iterator[Tasks]:
    """Trace a page; the figures are there when the block has ended."""
    session = visit.page.context.new_cdp_session(visit.page)
    events: list[dict[str, Any]] = []
    ended: list[object] = []
    session.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
    session.on("Tracing.tracingComplete", lambda data: ended.append(data))
    config = {"includedCategories": _CATEGORIES}
    session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
    tasks = Tasks()
    yield tasks
    session.send("Tracing.end")
    while not ended:
        visit.page.wait_for_timeout(50)
    named = [event for event in events if event["name"] == "thread_name"]
    main = {(event["pid"], event["tid"]) for event in named if event["args"]["name"] == "CrRendererMain"}
    whole = [event for event in events if event["name"].endswith("RunTask") and "dur" in event]  # the last may not end
    ran = [event for event in whole if (event["pid"], event["tid"]) in main]
    if not ran:
        raise RuntimeError("the trace of the browser has no task of a page")
    tasks.clock_ms = round(max(event["dur"] for event in ran) / 1000)
    tasks.cpu_ms = round(max(event.get("tdur", 0) for event in ran) / 1000)
