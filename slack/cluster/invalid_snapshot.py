"""What is said of a snapshot file that cannot be used."""

from slack.errors import InvalidInput

WHOLE = "write the whole output of `kubectl get nodes,pods -A -o json`"


class InvalidSnapshot(InvalidInput):
    """A snapshot file that cannot be used; the message names the file, the place and what would be right."""
