"""A CpuAuditPolicy: what is taken, what is refused and in which words, and who has a namespace."""

from datetime import timedelta
from typing import Any

import pytest

from slack.audit.api.policy import AuditPolicy, AuditPolicySpec, InvalidAuditPolicy, Mode, assign, parse_audit_policy


def document(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "CpuAuditPolicy", "metadata": {"name": "default"}}
    return head | {"spec": spec}


def problems(**spec: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidAuditPolicy) as found:
        parse_audit_policy(document(**spec), source="policy.yaml")
    return found.value.problems


def test_an_empty_spec_reports_on_everything_and_changes_nothing() -> None:
    spec = parse_audit_policy(document(), source="x").spec
    assert spec.mode is Mode.REPORT
    assert not spec.enforces
    assert spec.selects("kube-system", {})
    assert (spec.window, spec.report.every, spec.enforce.resize) == ("5m", timedelta(minutes=5), None)


def test_enforcement_must_be_asked_for_twice() -> None:
    assert problems(mode="Enforce") == (
        "spec: mode DryRun and Enforce need enforce.resize (such as {}) or enforce.burst: true",
    )
    spec = parse_audit_policy(document(mode="Enforce", enforce={"resize": {}}), source="x").spec
    assert spec.enforce.resize is not None
    assert (spec.enforce.resize.factor, spec.enforce.resize.max_limit_per_container) == (1.2, 4000)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"window": "7m"}, "spec.window: input should be '1m', '5m' or '1h', not '7m'"),
        ({"thresholds": {"warnRatio": "5%"}}, "spec.thresholds.warnRatio: '5%' is no number; write one such as 0.05"),
        ({"thresholds": {"warnRatio": 0.5}}, "spec.thresholds: warnRatio is above highRatio"),
        ({"thresholds": {"highLost": 0.01}}, "spec.thresholds: warnLost is above highLost"),
        ({"report": {"every": "10s"}}, "spec.report.every: must be from 1m to 24h"),
        ({"report": {"every": 300}}, "spec.report.every: 300 is not a duration such as 30s, 10m or 1h30m"),
        ({"colour": "red"}, "spec.colour: unknown field"),
        (
            {"enforce": {"resize": {"maxLimitPerContainer": "-1"}}},
            "spec.enforce.resize.maxLimitPerContainer: '-1' is not above 0; write an amount of CPU such as 500m or 2",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In"}]}},
            "spec.namespaceSelector.matchExpressions[0]: operators In and NotIn need values, Exists and DoesNotExist "
            "take none",
        ),
    ],
)
def test_a_complaint_names_the_field_and_what_would_be_right(spec: dict[str, Any], problem: str) -> None:
    assert problems(**spec) == (problem,)


def test_another_kind_is_refused() -> None:
    with pytest.raises(InvalidAuditPolicy, match="and kind CpuAuditPolicy, found"):
        parse_audit_policy(document() | {"kind": "SlackPolicy"}, source="x")


def test_a_selector_needs_every_requirement_and_exclusion_wins() -> None:
    spec = AuditPolicySpec.model_validate(
        {
            "namespaceSelector": {
                "matchLabels": {"team": "shop"},
                "matchExpressions": [
                    {"key": "stage", "operator": "NotIn", "values": ["test"]},
                    {"key": "legacy", "operator": "DoesNotExist"},
                ],
            },
            "excludeNamespaces": ["shop-old"],
        }
    )
    assert spec.selects("shop", {"team": "shop"})
    assert spec.selects("shop", {"team": "shop", "stage": "live"})
    assert not spec.selects("shop", {"team": "shop", "stage": "test"})
    assert not spec.selects("shop", {"team": "shop", "legacy": ""})
    assert not spec.selects("shop", {})
    assert not spec.selects("shop-old", {"team": "shop"})


def test_of_two_policies_for_a_namespace_the_older_wins() -> None:
    old = AuditPolicy(name="z-old", created_seconds=1.0, spec=AuditPolicySpec(exclude_namespaces=("ads",)))
    new = AuditPolicy(name="a-new", created_seconds=2.0)
    chosen, lost = assign({"a-new": new, "z-old": old}, {"shop": {}, "ads": {}})
    assert chosen == {"shop": "z-old", "ads": "a-new"}
    assert lost == {"a-new": {"shop": "z-old"}}
