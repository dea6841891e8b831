"""Which form placeholders have, by the `schedulerName` that makes them unbound."""

from functools import lru_cache

from slack.planner.forms.bound import Bound
from slack.planner.forms.form import Form
from slack.planner.forms.unbound import Unbound

BOUND: Form = Bound()


@lru_cache(maxsize=64)
def form_of(unbound_scheduler: str, *, yields_to_markers: bool = False) -> Form:
    """Return the form for this schedulerName of unbound placeholders; '' makes them bound.

    Args:
        unbound_scheduler: no scheduler has this name.
        yields_to_markers: unbound ones hold no capacity on nodes with a marker pod.
    """
    return Unbound(unbound_scheduler, yields_to_markers) if unbound_scheduler else BOUND
