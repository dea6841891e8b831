"""Which form placeholders have, by the `schedulerName` that makes them unbound."""

from functools import lru_cache

from slack.planner.forms.bound import Bound
from slack.planner.forms.form import Form
from slack.planner.forms.unbound import Unbound

BOUND: Form = Bound()


@lru_cache(maxsize=64)
def form_of(unbound_scheduler: str) -> Form:
    """Return the form for this schedulerName of unbound placeholders; '' makes them bound."""
    return Unbound(unbound_scheduler) if unbound_scheduler else BOUND
