"""How a person reaches an API server: what kubectl's flags say. Values only, so that a help text loads no client."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Which API server, and as whom. Without any field: as kubectl without flags."""

    kubeconfig: Path | None = None
    context: str | None = None
    cluster: str | None = None
    """Of the kubeconfig, in place of the context's."""
    user: str | None = None
    """Of the kubeconfig, in place of the context's."""
    token: str | None = field(default=None, repr=False)
    """A bearer token, in place of the user's credentials."""
    as_user: str | None = None
    """Whom to impersonate."""
    as_groups: tuple[str, ...] = ()
    request_timeout_seconds: float | None = None
    """How long one request may stay without an answer; 0 is without end, None leaves it to the command."""
    verbosity: int = 0
    """From `REQUESTS_SHOWN` on each request is shown."""

    @property
    def is_chosen(self) -> bool:
        """Whether a cluster was named, by whichever flag."""
        return any((self.kubeconfig, self.context, self.cluster, self.user))


REQUESTS_SHOWN = 6
"""kubectl's level for that."""
