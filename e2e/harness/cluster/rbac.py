"""Which of the operator's rights are used: what the chart grants, beside what the audit log saw asked.

A right is one verb on one resource in one place. Every right has its reason here: that the suites use it, or that it is
for faults and servers that they do not have. `e2e/suites/test_chart_rights.py` holds the chart to this table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2e.harness.api import Json
from e2e.harness.cluster.audit_log import AuditEntry

_AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"
EVERYWHERE = ""
"""The place of a ClusterRole's rights; a Role's is its namespace."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource, with its group and subresource as the audit log writes them: `apps/replicasets`."""

    place: str
    resource: str
    verb: str

    def __str__(self) -> str:
        """Return it as a line of a list."""
        return f"{self.verb} {self.resource} {f'in {self.place}' if self.place else 'everywhere'}"


_WITHOUT_WATCH_LIST = "the first list, where the API server cannot stream it in the watch: older ones, or a gate is off"
_OTHER_LANE = "used by suites of the other lane (e2e/lanes.py): test_scaling, test_objective"
UNUSED_IN_SUITES: Mapping[tuple[str, str], str] = {
    **dict.fromkeys(
        (
            ("pods", "list"),
            ("nodes", "list"),
            ("namespaces", "list"),
            ("resourcequotas", "list"),
            ("limitranges", "list"),
            ("events", "list"),
            ("apps/deployments", "list"),
            ("apps/replicasets", "list"),
            ("apps/statefulsets", "list"),
            ("batch/jobs", "list"),
            ("batch/cronjobs", "list"),
            ("scheduling.k8s.io/priorityclasses", "list"),
            ("resource-slack.io/slackscales", "list"),
            ("resource-slack.io/activationpools", "list"),
            ("karpenter.sh/nodeclaims", "list"),
        ),
        _WITHOUT_WATCH_LIST,
    ),
    ("nodes", "get"): "the taint that an earlier setting has left is removed from what the node is then",
    ("events", "patch"): "an Event that is said again is counted up; whether that happens is a matter of timing",
    **dict.fromkeys(
        (
            ("resource-slack.io/slackpolicies/scale", "patch"),
            ("resource-slack.io/slackscales/status", "patch"),
            ("resource-slack.io/slackhistories", "get"),
            ("resource-slack.io/slackhistories", "create"),
            ("resource-slack.io/slackhistories", "patch"),
        ),
        _OTHER_LANE,
    ),
    ("pods", "delete"): "placeholders on a node that static pods or resized pods have filled over its allocatable",
}
"""Why a right is granted that the suites may not use, by resource and verb."""


def granted(manifests: Iterable[Json]) -> set[Right]:
    """Return the rights of all ClusterRoles and Roles among the manifests; roles for people are left out."""
    return {
        Right(role["metadata"].get("namespace", EVERYWHERE), "/".join(part for part in (group, resource) if part), verb)
        for role in manifests
        if role["kind"] in {"ClusterRole", "Role"} and not _is_aggregated(role)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _is_aggregated(role: Json) -> bool:
    return any(label.startswith(_AGGREGATED) for label in role["metadata"].get("labels") or {})


def used(rights: Iterable[Right], entries: Iterable[AuditEntry]) -> set[Right]:
    """Return those of the rights that the entries needed.

    A right of the place is taken where there is one, else the one that holds everywhere.
    """
    known = set(rights)
    needed = set()
    for entry in entries:
        if entry.code == 403:
            continue
        for verb in _verbs(entry):
            near = Right(entry.namespace, entry.resource, verb)
            needed.add(near if near in known else Right(EVERYWHERE, entry.resource, verb))
    return needed & known


def refused(rights: Iterable[Right], entries: Iterable[AuditEntry]) -> set[Right]:
    """Return what was asked without the right to.

    An API server that has just started refuses everybody until it has read its roles: a right that is granted was not
    missing.
    """
    known = set(rights)
    return {
        Right(entry.namespace, entry.resource, entry.verb)
        for entry in entries
        if entry.code == 403
        and not {Right(place, entry.resource, entry.verb) for place in (entry.namespace, EVERYWHERE)} & known
    }


def _verbs(entry: AuditEntry) -> Sequence[str]:
    if entry.verb == "patch" and entry.code == 201:
        return ("patch", "create")  # server-side apply of what was not there needs both
    return (entry.verb,)


def report(rights: Iterable[Right], seen: Iterable[Right], missing: Iterable[Right]) -> list[str]:
    """Return lines for people: what nobody used, with its reason, and what was refused."""
    lines = []
    for right in sorted(set(rights) - set(seen)):
        why = UNUSED_IN_SUITES.get(
            (right.resource, right.verb), "no reason known: other suites must use it, or the chart must not grant it"
        )
        lines.append(f"granted, not used: {right} ({why})")
    lines += [f"asked, not granted: {right}" for right in sorted(missing)]
    return lines
