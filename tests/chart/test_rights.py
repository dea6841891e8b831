"""Rights beside what the audit log saw: what counts as used, and that every reason belongs to a right."""

from pathlib import Path

from e2e.harness.cluster import rbac
from e2e.harness.cluster.access import read_manifests
from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.cluster.rbac import EVERYWHERE, Right

MANIFESTS = read_manifests(Path(__file__).parents[2] / "deploy" / "operator.yaml")
RIGHTS = rbac.granted(MANIFESTS)


def entry(verb: str, resource: str, namespace: str = "", code: int = 200) -> AuditEntry:
    return AuditEntry("operator", verb, resource, namespace, "", code, "", "")


def test_a_right_is_a_verb_on_a_resource_in_a_place() -> None:
    assert Right(EVERYWHERE, "resource-slack.io/slackpolicies/status", "patch") in RIGHTS
    assert Right("resource-slack", "apps/replicasets", "delete") in RIGHTS
    assert Right(EVERYWHERE, "apps/replicasets", "delete") not in RIGHTS


def test_a_request_uses_the_right_of_its_place_before_the_one_that_holds_everywhere() -> None:
    seen = rbac.used(RIGHTS, [entry("watch", "events", "resource-slack"), entry("create", "events", "default", 201)])
    assert seen == {Right("resource-slack", "events", "watch"), Right(EVERYWHERE, "events", "create")}


def test_an_apply_that_creates_needs_both_verbs() -> None:
    first = rbac.used(RIGHTS, [entry("patch", "apps/replicasets", "resource-slack", 201)])
    assert {right.verb for right in first} == {"patch", "create"}
    again = rbac.used(RIGHTS, [entry("patch", "apps/replicasets", "resource-slack", 200)])
    assert {right.verb for right in again} == {"patch"}


def test_what_was_refused_is_missing_and_not_used() -> None:
    asked = [entry("list", "secrets", "shop", 403), entry("patch", "pods", "shop", 403)]
    assert rbac.used(RIGHTS, asked) == set()
    missing = rbac.refused(RIGHTS, asked)
    assert missing == {Right("shop", "secrets", "list"), Right("shop", "pods", "patch")}
    assert "asked, not granted: list secrets in shop" in rbac.report(RIGHTS, RIGHTS, missing)


def test_a_server_that_does_not_know_its_roles_yet_shows_no_missing_right() -> None:
    early = [entry("watch", "pods", "", 403), entry("get", "coordination.k8s.io/leases", "resource-slack", 403)]
    assert rbac.refused(RIGHTS, early) == set()
    assert rbac.used(RIGHTS, early) == set()


def test_the_report_gives_the_reason_of_what_nobody_used() -> None:
    right = Right(EVERYWHERE, "pods", "list")
    (line,) = rbac.report({right}, set(), set())
    assert line.startswith("granted, not used: list pods everywhere (the first list,")
    (line,) = rbac.report({Right(EVERYWHERE, "secrets", "get")}, set(), set())
    assert "no reason known" in line


def test_every_reason_belongs_to_a_right_that_is_granted() -> None:
    assert set(rbac.UNUSED_IN_SUITES) <= {(right.resource, right.verb) for right in RIGHTS}
