"""The first step of the loop, observe: is everything seen, and what is there.

Reads only. Nothing is observed while the view is not whole, for a plan of half a cluster would remove placeholders.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.planner.domain.membership import node_labels, node_selectors
from slack_operator.placeholders.forms import Forms
from slack_operator.placeholders.policies import DesiredPolicies, PolicyEntry
from slack_operator.placeholders.reconciliation import ObservedState
from slack_operator.placeholders.view.cluster_view import ClusterView

log = logging.getLogger(__name__)


class ViewFreshness(Protocol):
    """Whoever knows whether the view is whole."""

    def stale(self) -> str | None:
        """Say what is missing; None when nothing is."""

    def forbidden(self) -> bool:
        """Whether it is missing for lack of rights."""


class Observer:
    """Copies what the watches have seen."""

    def __init__(
        self,
        view: ClusterView,
        watches: ViewFreshness,
        desired: DesiredPolicies,
        forms: Forms,
        *,
        may_write: Callable[[], bool],
        prices: Callable[[], NodePrices] = lambda: NO_PRICES,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """An observer that has seen nothing yet.

        Args:
            view: what the watches fill.
            watches: whether it is whole.
            desired: the SlackPolicies.
            forms: which wait for the first look for autoscalers.
            may_write: whether this process leads.
            prices: of nodes, by labels that the view must keep.
            wall: Unix seconds.
        """
        self._view = view
        self._watches = watches
        self._desired = desired
        self._forms = forms
        self._may_write = may_write
        self._prices = prices
        self._wall = wall
        self._left_out: tuple[str, ...] = ()

    def observe(self) -> ObservedState:
        """Return what is there, or what is missing."""
        leading = self._may_write()
        stale = self._watches.stale()
        if leading and not stale and not self._desired.synced:
            stale = "slackpolicies are not listed yet"
        if leading and not stale:
            stale = self._forms.unready()
        entries = self._desired.entries()
        now = self._wall()
        if stale:
            return ObservedState(now, leading, entries, stale=stale, forbidden=self._watches.forbidden())
        self._require_labels(entries)
        observation = self._view.observe(now)
        self._log_left_out(observation.snapshot.left_out)
        return ObservedState(now, leading, entries, observation)

    def keep_only(self, policies: set[str]) -> None:
        """Forget policies that are no more."""
        self._view.keep_only(policies)

    def _require_labels(self, entries: Sequence[PolicyEntry]) -> None:
        policies = [entry.policy for entry in entries if entry.policy is not None]
        keys, selectors = node_labels(policies, self._prices()), node_selectors(policies)
        self._view.require_labels(keys, selectors)

    def _log_left_out(self, left_out: tuple[str, ...]) -> None:
        if left_out and not self._left_out:
            log.warning(
                "nodes have %d resources beyond those that are counted, such as %s: who requests them gets no slack",
                len(left_out),
                left_out[0],
            )
        self._left_out = left_out
