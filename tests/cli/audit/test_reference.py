"""docs/reference/audit.md has every key of the audit's JSON and no other; states, marks and ids are the code's."""

import re
from pathlib import Path
from typing import Any

from slack.audit.advice.patches import PatchKind
from slack.audit.advice.rules import AdviceId
from slack.audit.findings.finding import Mark
from slack.audit.findings.sample import CgroupLevel, ReadError
from slack.audit.findings.window import WindowState
from slack.audit.kernel.probe import ProbeResult, ProbeState
from slack.cli.audit.explain import document as explain_document
from slack.cli.audit.explain import explain
from slack.cli.audit.export import document
from slack.cli.audit.kernel import KernelGroup, features_of
from slack.cli.audit.kernel import document as kernels_document
from tests.cli.audit.build import container, kubelet_pods, look, pod, rose

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "reference" / "audit.md").read_text()


def told(title: str) -> set[str]:
    """The keys in a section's tables."""
    section = re.split(rf"^#+ {re.escape(title)}$", PAGE, flags=re.MULTILINE)[1]
    return set(re.findall(r"^\| `([^`]+)` \|", re.split(r"^#+ ", section, flags=re.MULTILINE)[0], re.MULTILINE))


def throttled() -> Any:
    samples = rose(pod(), None), rose(container(), 20_000, throttled=100, stop_ms=80.0, use=0.2)
    return look(*samples, troubles={ReadError.MALFORMED: 1}, pods=kubelet_pods())


def test_every_key_of_the_audit_is_told_and_no_other() -> None:
    found = throttled()
    whole = document(found, found.findings, found.findings)
    (worst, *_) = whole["findings"]
    assert told("The document") == set(whole)
    assert told("nodes") == set(whole["nodes"][0])
    assert told("summary") == set(whole["summary"])
    assert told("troubles") == set(whole["troubles"][0])
    assert told("findings") == set(worst)
    assert told("window") == set(worst["window"])
    assert told("advice") == set(worst["advice"][0])
    patches = [patch for advice in worst["advice"] for patch in advice["patches"]]
    assert told("patches") == set(patches[0])
    assert told("kernel") == set(whole["nodes"][0]["kernel"])
    assert f"`{whole['schema']}`" in PAGE


def test_every_key_of_an_explanation_is_told_and_no_other() -> None:
    found = explain_document(explain(throttled(), "pod/api-1a/main", "shop", 2))
    assert told("explain") == set(found)
    assert told("period") == set(found["period"])
    assert f"`{found['schema']}`" in PAGE


def test_every_key_about_kernels_is_told_and_no_other() -> None:
    from slack.audit.kernel.quota_bugs import kernel_verdict

    group = KernelGroup(kernel_verdict("6.12.0"), ("node-1",))
    found = kernels_document((group,), ProbeResult(ProbeState.NOT_SHOWN, "", 50, 0, 0.5))
    assert told("kernels") == set(found) | (set(found["kernels"][0]) - told("kernel"))
    assert told("probe") == set(found["probe"])
    assert features_of("6.12.0")
    for key in found["kernels"][0]["features"][0]:
        assert f"`{key}`" in PAGE.partition("## kernels")[2]
    assert f"`{found['schema']}`" in PAGE


def test_words_are_the_codes() -> None:
    assert told("states") == {str(state) for state in WindowState}
    assert told("marks") == {str(mark) for mark in Mark}
    for word in (*CgroupLevel, *ReadError, *PatchKind, *ProbeState):
        assert f"`{word}`" in PAGE


def test_the_guide_has_each_advice_in_the_order_in_which_it_is_given() -> None:
    section = (DOCS / "details" / "cpu-audit.md").read_text().partition("\n## What to do\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert rows == [str(advice) for advice in AdviceId]


def test_the_guide_has_every_state_that_is_no_figure() -> None:
    text = (DOCS / "details" / "cpu-audit.md").read_text()
    assert all(f"`{state}`" in text for state in WindowState if state is not WindowState.MEASURED)
