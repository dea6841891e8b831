"""What was asked of the API server, by whom: its audit log, at Metadata level.

The server writes an entry before it sends the answer (blocking mode), so what a test caused is in the file when the
test looks. Reads by the control plane's own programs are left out: they are most of the lines and prove nothing.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/readyz*", "/livez*", "/openapi*", "/version"]},
        {
            "level": "None",
            "verbs": ["get", "list", "watch"],
            "users": [
                "system:apiserver",
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "kwok",
            ],
        },
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request that the API server answered."""

    user: str
    verb: str
    resource: str  # with its group and subresource: "apps/replicasets/scale", "pods"
    namespace: str
    name: str
    code: int
    time: str
    user_agent: str
    dry_run: bool = False
    answered: str = ""
    """When the answer was complete; `time` is when the request came. Both have microseconds."""

    @classmethod
    def from_json(cls, line: str) -> "AuditEntry":
        """Read one line of the log."""
        event = json.loads(line)
        target = event.get("objectRef", {})
        parts = (target.get("apiGroup"), target.get("resource"), target.get("subresource"))
        return cls(
            user=event["user"]["username"],
            verb=event["verb"],
            resource="/".join(part for part in parts if part),
            namespace=target.get("namespace", ""),
            name=target.get("name", "") or _made(event),
            code=event.get("responseStatus", {}).get("code", 0),
            time=event["requestReceivedTimestamp"],
            user_agent=event.get("userAgent", ""),
            dry_run="dryRun=All" in event.get("requestURI", ""),
            answered=event.get("stageTimestamp", ""),
        )


def _made(event: dict[str, Any]) -> str:
    """Return the name that the server gave to what was created; only rules that keep the answer tell it."""
    name: str = ((event.get("responseObject") or {}).get("metadata") or {}).get("name", "")
    return name


def read(path: Path, offset: int = 0) -> Iterator[AuditEntry]:
    """Yield the entries from a place in the file on (as bytes); a last line that is still being written is left out."""
    with path.open("rb") as log:
        log.seek(offset)
        for line in log:
            if line.endswith(b"\n"):
                yield AuditEntry.from_json(line.decode("utf-8"))


def entries(
    path: Path, user: str | None = None, verbs: Collection[str] | None = None, offset: int = 0
) -> list[AuditEntry]:
    """Return the entries of one user and of certain verbs."""
    return [
        entry
        for entry in read(path, offset)
        if (user is None or entry.user == user) and (verbs is None or entry.verb in verbs)
    ]
