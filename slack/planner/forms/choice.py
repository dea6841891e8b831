"""Which form placeholders have, by the `schedulerName` that makes them unbound."""

from functools import lru_cache

from slack.planner.forms.bound import Bound
from slack.planner.forms.form import Form
from slack.planner.forms.unbound import Unbound

BOUND: Form = Bound()


@lru_cache(maxsize=64)
def form_of(unbound_scheduler: str, *, yields_to_markers: bool = False, tolerates_soft_taint: bool = False) -> Form:
    """Return the form for this schedulerName of unbound placeholders; '' makes them bound.

    Args:
        unbound_scheduler: no scheduler has this name.
        yields_to_markers: unbound ones hold no capacity on nodes with a marker pod.
        tolerates_soft_taint: unbound ones tolerate the taint of nodes that hold some.
    """
    return Unbound(unbound_scheduler, yields_to_markers, tolerates_soft_taint) if unbound_scheduler else BOUND
