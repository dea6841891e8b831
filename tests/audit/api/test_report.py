"""A CpuAuditReport: bounded, with both figures, and written anew only when somebody would care."""

from dataclasses import replace
from typing import Any

import msgspec
import yaml

from slack.audit.advice.rules import Facts
from slack.audit.api.policy import AuditPolicy, AuditPolicySpec
from slack.audit.api.report import MAX_BYTES, NamespaceFindings, PodFinding, cores_text, digest, report
from slack.audit.findings.finding import Severity
from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack.audit.kernel.quota_bugs import kernel_verdict
from tests.audit.enforcement.test_decision import container, finding, pod

POLICY = AuditPolicy(name="default", uid="uid-default")
AT = "2026-11-21T10:00:00Z"


def told(name: str = "api-1", **how: Any) -> PodFinding:
    found = finding(name, **how)
    return PodFinding(found, pod(name), Facts(pod=pod(name), container=container()))


def shop(*findings: PodFinding, **fields: Any) -> NamespaceFindings:
    return replace(
        NamespaceFindings("shop", pods=3, containers=5, no_limit=2, findings=findings, nodes_reporting=1), **fields
    )


def test_a_finding_has_both_figures_the_advice_and_a_patch() -> None:
    found = report(shop(told()), POLICY, AT)
    (shown,) = found["findings"]
    assert (shown["pod"], shown["container"], shown["severity"], shown["workload"]) == (
        "api-1",
        "api",
        "high",
        "Deployment/api",
    )
    assert (shown["throttledPercent"], shown["limit"], shown["use"]) == (96.7, "500m", "500m")
    assert shown["lostPercent"] > 30
    assert shown["advice"][0] == "raise-limit"
    assert yaml.safe_load(shown["patch"])["kind"] == "Deployment"
    assert found["summary"]["worst"].startswith("api-1/api lost ")
    assert "throttled in 96.7 % of periods" in found["summary"]["worst"]


def test_the_neighbours_share_is_told_where_it_is_known() -> None:
    (unknown,) = report(shop(told()), POLICY, AT)["findings"]
    assert "neighboursPercent" not in unknown
    entry = told()
    entry = replace(entry, finding=replace(entry.finding, pressure_ratio=0.9, neighbours_ratio=0.1234))
    (known,) = report(shop(entry), POLICY, AT)["findings"]
    assert known["neighboursPercent"] == 12.3


def test_the_summary_counts_what_is_not_listed_too() -> None:
    policy = AuditPolicy(name="default", spec=AuditPolicySpec.model_validate({"report": {"maxFindings": 2}}))
    found = report(shop(*(told(f"api-{n}") for n in range(5))), policy, AT)
    assert (len(found["findings"]), found["truncated"], found["summary"]["high"]) == (2, 3, 5)
    assert found["summary"]["levels"] == {"container": 5}
    assert found["summary"]["noLimit"] == 2


def test_it_is_bounded_whatever_the_names_are() -> None:
    policy = AuditPolicy(name="default", spec=AuditPolicySpec.model_validate({"report": {"maxFindings": 200}}))
    long = "x" * 253
    above = CgroupTarget(CgroupLevel.QOS, "/" + "y" * 1000, "n1")
    many = tuple(
        replace(entry, pod=pod(f"{long[:240]}-{n}"), finding=replace(entry.finding, blamed=above))
        for n, entry in enumerate([told()] * 200)
    )
    found = report(shop(*many), policy, AT)
    assert len(msgspec.json.encode(found)) <= MAX_BYTES < 256 << 10
    assert found["truncated"] == 200 - len(found["findings"]) > 0


def test_the_policy_is_its_owner_and_kernels_have_verdicts() -> None:
    verdict = kernel_verdict("4.15.0-60-generic")
    found = report(shop(kernels={"a": (verdict, 3)}), POLICY, AT)
    assert [(reference["kind"], reference["uid"]) for reference in found["metadata"]["ownerReferences"]] == [
        ("CpuAuditPolicy", "uid-default")
    ]
    assert [(kernel["release"], kernel["nodes"]) for kernel in found["kernels"]] == [("4.15.0-60-generic", 3)]
    assert found["kernels"][0]["verdict"].startswith(str(verdict.state))


def test_what_trembles_is_not_worth_a_write_and_what_turns_is() -> None:
    first = digest(report(shop(told(stop_ms=60.0)), POLICY, AT))
    assert digest(report(shop(told(stop_ms=60.4)), POLICY, "2026-11-21T11:00:00Z")) == first
    assert digest(report(shop(told(stop_ms=20.0)), POLICY, AT)) != first
    assert digest(report(shop(told(), told("api-2")), POLICY, AT)) != first
    assert digest(report(shop(told(stop_ms=60.0), nodes_silent=1), POLICY, AT)) != first
    another = AuditPolicy(name="default", uid="made-anew")
    assert digest(report(shop(told(stop_ms=60.0)), another, AT)) != first


def test_harmless_findings_are_counted_and_no_worst() -> None:
    harmless = replace(told(), finding=replace(finding(), severity=Severity.INFO))
    found = report(shop(harmless), POLICY, AT)
    assert (found["summary"]["info"], found["summary"]["worst"]) == (1, "")


def test_there_are_no_empty_maps_which_an_apply_would_make_null() -> None:
    """The API server makes null of {} where keys were applied before, and its schema refuses null."""
    assert {"levels", "troubles"}.isdisjoint(report(shop(), POLICY, AT)["summary"])


def test_amounts_have_three_digits_and_are_quantities() -> None:
    assert [cores_text(cores) for cores in (None, 0.0, 0.0004, 0.38249, 0.99999, 1.2549, 10.64, 5123.4)] == [
        "",
        "0",
        "0",
        "382m",
        "1",
        "1.25",
        "10.6",
        "5123",
    ]
