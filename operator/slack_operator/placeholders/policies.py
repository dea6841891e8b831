"""The SlackPolicy objects: what is specific to their kind, for the source and the map that every kind has."""

from collections.abc import Callable

from slack.cluster.labels import API_VERSION
from slack.planner.policy.crd import PLURAL
from slack.planner.policy.spec import KIND, Policy, parse_policy
from slack_operator.runtime.desired import Desired, Entry
from slack_operator.runtime.kopf_watch import Kind

SLACK_POLICY = Kind(
    API_VERSION,
    KIND,
    PLURAL,
    "there is no SlackPolicy CRD, so there can be no policy; install the CRD to write one",
)
PolicyEntry = Entry[Policy]


class DesiredPolicies(Desired[Policy]):
    """The SlackPolicies that are wanted now."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__(on_change, parse_policy, KIND.lower())
