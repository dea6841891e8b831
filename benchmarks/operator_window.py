"""The operator's process with a window in it: which pod events its columns show since when, and the columns themselves.

All but the window is what `resource-slack operator` runs. For each chunk of pod events a record of 24 bytes goes to
`applied`, after the columns have them: CLOCK_MONOTONIC in ns, the version of the last, how many. A line
`columns LATER` on stdin has the fingerprint of the columns written to `columns.json`.

Usage (benchmarks.operating does it):
    python -m benchmarks.operator_window FOLDER --kubeconfig=... --listen=...
"""

import json
import os
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.fingerprint import fingerprint
from slack.cluster import wire
from slack.cluster.freshness import version_number
from slack_operator import app
from slack_operator.placeholders.view import watches
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import Events, PodSink

RECORD = struct.Struct("<qqq")


class _Recorded(PodSink):
    """Says when its pods are in the columns."""

    file: int

    def apply(self, events: Events[wire.Pod]) -> None:
        super().apply(events)
        version = version_number(events[-1][1].metadata.resource_version)
        os.write(self.file, RECORD.pack(time.monotonic_ns(), version, len(events)))


class _Watched(ClusterView):
    """Answers on stdin."""

    folder: Path

    def __init__(self, *given: Any, **named: Any) -> None:  # whatever the view takes
        super().__init__(*given, **named)
        threading.Thread(target=self._answer, name="window", daemon=True).start()

    def _answer(self) -> None:
        for line in sys.stdin:
            _write(self.folder / "columns.json", _columns(self, float(line.split()[1])))


def _columns(view: ClusterView, later: float) -> dict[str, object]:
    with view.lock:
        labels = sorted(view.columns.required_labels)
        try:
            return {"required_labels": labels, "parts": fingerprint(view.columns, later)}
        except RuntimeError as error:
            return {"required_labels": labels, "error": str(error)}


def _write(path: Path, document: dict[str, object]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(document), encoding="utf-8")
    new.replace(path)


def main() -> int:
    """Run the operator with the window."""
    folder = Path(sys.argv[1])
    _Watched.folder = folder
    _Recorded.file = os.open(folder / "applied", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with patch.object(watches, "PodSink", _Recorded), patch.object(app, "ClusterView", _Watched):
        return app.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
