"""The audit's JSON is as its published schemas say, whatever was looked at, and its words are the code's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from slack.audit.advice.advice import AdviceId
from slack.audit.advice.patches import PatchKind
from slack.audit.findings.finding import Mark
from slack.audit.findings.finding import Severity as SeverityOfCode
from slack.audit.findings.sample import CgroupLevel as LevelOfCode
from slack.audit.findings.sample import ReadError
from slack.audit.findings.window import WindowState
from slack.audit.kernel.probe import ProbeResult, ProbeState
from slack.audit.kernel.quota_bugs import kernel_verdict
from slack.audit.kernel.states import Bug, Confidence, KernelState
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit import sampling
from slack.cli.audit.explain import document as explain_document
from slack.cli.audit.explain import explain
from slack.cli.audit.export import document
from slack.cli.audit.kernel import KernelGroup
from slack.cli.audit.kernel import document as kernels_document
from slack.cli.documents import audit as documents
from tests.audit.test_recorded_trees import RECORDED
from tests.cli.audit.build import container, kubelet_pods, look, pod, recorded, rose
from tests.cli.audit.test_remote import audit, served
from tests.cli.test_documents import as_declared, golden

__all__ = ["recorded"]
_PROSE = {"title", "evidence", "reason", "risk", "why", "about", "noPatch", "command", "note", "ask", "source"}
_PATCHES = {"jsonPatch", "mergeYaml"}


def without_prose(value: Any) -> Any:
    """Return a document without what people read: its words may be bettered, its keys and figures not."""
    if isinstance(value, dict):
        return {
            key: "..." if isinstance(inner, str) and inner and key in _PROSE | _PATCHES else without_prose(inner)
            for key, inner in value.items()
        }
    return [without_prose(inner) for inner in value] if isinstance(value, list) else value


def throttled() -> Any:
    samples = rose(pod(), None), rose(container(), 20_000, throttled=100, stop_ms=80.0, use=0.2)
    return look(*samples, troubles={ReadError.MALFORMED: 1}, pods=kubelet_pods())


def test_an_audit_and_what_explains_it() -> None:
    found = throttled()
    whole = document(found, found.findings, found.findings)
    as_declared("audit", whole)
    golden("audit", without_prose(whole))
    explained = explain_document(explain(found, "pod/api-1a/main", "shop", 2))
    as_declared("audit-explain", explained)
    golden("audit-explain", without_prose(explained))


def test_an_explanation_without_a_limit() -> None:
    found = look(rose(container(), None, use=0.2))
    explained = explain_document(explain(found, "pod/api-1a/main", "", None))
    assert explained["period"] is None
    as_declared("audit-explain", explained)


def test_kernels_with_a_probe() -> None:
    groups = [KernelGroup(kernel_verdict(release), ("node-1",)) for release in ("6.12.0", "4.18.0", "odd")]
    found = kernels_document(tuple(groups), ProbeResult(ProbeState.NOT_SHOWN, "", 50, 0, 0.5))
    as_declared("audit-kernel", found)
    golden("audit-kernel", without_prose(found))


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_node(name: str, recorded: Callable[[str], Path]) -> None:
    found = audit("--root", recorded(name), "--no-names", "--all", "-o", "json")
    assert found.exit_code == 0, found.output
    as_declared("audit", json.loads(found.stdout))


def test_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_waited", lambda *_: True)
    with served(tmp_path, (200, b'{"metadata": {}, "items": []}'), "a", "b") as config:
        found = audit("--all-nodes", "--kubeconfig", config, "-o", "json", "--all")
    assert found.exit_code == 0, found.output
    as_declared("audit", json.loads(found.stdout))


def _words(kind: type[msgspec.Struct], field: str) -> set[str]:
    """Return the words that a field is declared with: its own, or those of its list, without null."""

    def literals(annotation: Any) -> set[str]:
        inner = get_args(annotation)
        return {word for word in inner if isinstance(word, str)}.union(*map(literals, inner))

    (found,) = (declared for declared in msgspec.structs.fields(kind) if declared.name == field)
    return literals(found.type)


def test_the_declared_words_are_the_codes() -> None:
    for kind, field, words in (
        (documents.Audit, "source", SourceKind),
        (documents.AuditedCgroup, "level", LevelOfCode),
        (documents.AuditFinding, "state", WindowState),
        (documents.AuditFinding, "marks", Mark),
        (documents.AuditTrouble, "trouble", ReadError),
        (documents.AuditAdvice, "id", AdviceId),
        (documents.AuditPatch, "kind", PatchKind),
        (documents.AuditKernel, "state", KernelState),
        (documents.AuditKernel, "bug", Bug),
        (documents.AuditKernel, "confidence", Confidence),
        (documents.AuditKernelFeature, "confidence", Confidence),
        (documents.AuditProbe, "state", ProbeState),
    ):
        assert _words(kind, field) == set(map(str, words)), f"{kind.__name__}.{field}"
    assert _words(documents.AuditFinding, "severity") == {severity.name.lower() for severity in SeverityOfCode}
