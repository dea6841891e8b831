"""What is said of a snapshot file that cannot be used."""

WHOLE = "write the whole output of `kubectl get nodes,pods -A -o json`"


class BadSnapshot(ValueError):
    """A snapshot file that cannot be used; the message names the file, the place and what would be right."""

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        super().__init__(f"{source}: {problem}")
