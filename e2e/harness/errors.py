"""The harness's own errors: what failed, and where its log is."""


class HarnessError(RuntimeError):
    """Something that the harness started or waited for did not do what it should."""


class UnavailableError(HarnessError):
    """This machine lacks what the chosen way of running needs (a program, a binary); the text names it."""
