"""The reference of the load watcher's REST API: what it serves, its OpenAPI document, the slips of the source."""

import json
from importlib import metadata

from slack.loadwatcher.openapi import document
from tools.reference.markdown import head, table

_TEXT = """
What `resource-slack load-watcher serve` answers at `--api-listen`; the same document is served at `/openapi.json`.
Everything is read-only. Percent are of what the node has, times are Unix seconds.

It is the API of the Trimaran proposal (kubernetes-sigs/scheduler-plugins, KEP 61). With `--format upstream` replies are
nested as paypal/load-watcher nests them, and stock Trimaran plugins read them; our scorer reads both. `observedAt` is
ours: when the node's newest sample was made.
"""
_ASKED = (
    ("`GET /watcher`", "all nodes; `?window=10m` or `5m`, else 15 minutes; `?host=NAME` is as the next"),
    ("`GET /watcher/{hostname}`", "one node, by its name, an address, or a host name that no other node has"),
    ("`GET /watcher/health`", "200 while there are figures and the provider answers, else 503 and why"),
    ("`GET /analysis`", "series that the analyser dropped and why, names that match no node, nodes without figures"),
    ("`GET /openapi.json`", "the document below"),
)
_RULES = """
A question for 15 minutes is answered with 10 or 5 where the longer window is not there yet or ended more than
`--max-age` ago; `window.duration` says what it is. Where nothing is that new the answer is 404, never an old figure:
upstream's watcher tells its last one for ever. A roll-up is `AVG`, `STD` (the deviation of the samples) or `Latest`;
`Latest` is left out with `--format upstream`, whose plugins take whichever of it and the average comes last. Replies
are packed where `Accept-Encoding` has gzip.
"""
_DROPPED = (
    ("`NotANumber`", "NaN or an infinity"),
    ("`Negative`", "below 0"),
    ("`Stale`", "the newest sample is older than `--max-age`"),
    ("`Future`", "the newest sample is more than a minute ahead of the watcher's clock"),
)

_SLIPS = (
    "`patternProperties` of its `data` is `^[0-9]+$`, which no name of a node matches: nothing below it is checked. "
    "Here any name is meant.",
    "`value` is an integer in its schema; averages and deviations are not. Here it is a number, of percent.",
    "`items` of its `metrics` is a list of two schemas, which in JSON schema means the first two places. Here it is "
    "one schema for all.",
    "`tags` and `metadata` of the example's second node stand beside the node instead of in it. Here they are in it; "
    "what stands beside nodes is not read.",
    "The timestamp of its example is 35 minutes after its window's end. Here both are those of the fetch.",
    "It says `type` for the resource, and `rollup` for average or deviation; upstream's code says `operator` for the "
    "latter and `rollup` for the window. Both are read; `--format` says which is written.",
)
"""Where the proposal's schema and example say other than they mean."""


def page() -> str:
    """Return the whole page."""
    drawn = json.dumps(document(metadata.version("resource-slack")), indent=2)
    slips = "".join(f"- {slip}\n" for slip in _SLIPS)
    return "".join(
        (
            head("Load watcher API", "slack/loadwatcher/openapi.py", _TEXT),
            f"\n## What is asked\n\n{table(('request', 'answer'), _ASKED)}",
            f"\n## Which window is told\n{_RULES}",
            "\n## What the analyser drops\n\nA series, never the node's others. `load-watcher show` prints them.\n\n"
            f"{table(('reason', 'when'), _DROPPED)}",
            f"\n## Where the proposal's schema slips\n\n{slips}",
            f"\n## OpenAPI\n\n```json\n{drawn}\n```\n",
        )
    )
