"""Where the suites run: programs on this machine (`local`), or kind, in a Docker (`BACKEND=kind`)."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from e2e.harness.api import Api, Json
from e2e.harness.cluster.access import Access
from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.errors import HarnessError


@runtime_checkable
class Backend(Protocol):
    """What a suite may ask of its cluster, wherever that runs."""

    @property
    def name(self) -> str:
        """`local` or `kind`."""

    @property
    def run_folder(self) -> Path:
        """Where logs and kubeconfig files are."""

    @property
    def api(self) -> Api:
        """The cluster-admin's door to the API."""

    @property
    def kubeconfig(self) -> Path:
        """The cluster-admin's kubeconfig file."""

    def start(self) -> Self:
        """Bring the cluster up."""

    def stop(self) -> None:
        """Take it down."""

    def user(self, name: str, groups: Sequence[str] = ()) -> Access:
        """Return a user named by a client certificate; it may do nothing until a role is granted to it."""

    def service_account(self, namespace: str, name: str) -> Access:
        """Return a service account's identity; it may do nothing until a role is granted to it."""

    def stop_apiserver(self, crash: bool = False) -> None:
        """Take the API server away."""

    def start_apiserver(self) -> None:
        """Bring it back and wait until it is ready."""

    def restart_apiserver(self, crash: bool = False, down_seconds: float = 0.0) -> None:
        """Stop the API server, leave it down for a while, start it."""

    def restart_scheduler(self, gates: Mapping[str, bool] | None = None, configuration: Json | None = None) -> None:
        """Start the scheduler anew with other feature gates or configuration; without arguments, as at first."""

    def restart_missing(self) -> None:
        """Bring back what a test has stopped and not started again."""

    def begin_kwok_anew(self) -> None:
        """Start kwok anew where none of its nodes is left; it does not bear hours of nodes that come and go."""

    def audit_mark(self) -> int:
        """Return a place in the audit log."""

    def audit_entries(
        self, user: str | None = None, verbs: Collection[str] | None = None, since: int = 0
    ) -> list[AuditEntry]:
        """Return what was asked of the API server since a mark."""


def choose(run_folder: Path) -> Backend:
    """Return the backend that the environment asks for, not started yet."""
    # Here and not above: a suite on one backend needs nothing of the other.
    name = os.environ.get("BACKEND") or "local"
    if name == "local":
        from e2e.harness.cluster.control_plane import ControlPlane

        return ControlPlane(run_folder)
    if name == "kind":
        from e2e.harness.cluster.kind import Kind

        return Kind(run_folder)
    raise HarnessError(f"BACKEND={name} is neither local nor kind")
