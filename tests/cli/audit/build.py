"""`audit` over the recorded trees: the first sample sees one moment, the second the other; and looks made by hand."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError, Sample, Sampled
from slack.audit.results.audit_result import AuditResult, evaluate
from slack.audit.results.source_kind import SourceKind
from slack.audit.sources.pod_index import PodNames
from slack.audit.sources.pod_objects import decode_pods
from slack.audit.sources.walker import CgroupWalker
from slack.cli.audit import sampling as audit_taking
from tests.audit.test_recorded_trees import container_id, pod_uid
from tests.audit.tree import TREES, unpack, uptime

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KUBEPODS = CgroupTarget(CgroupLevel.KUBEPODS, "/kubepods")
QOS = CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable")
POD_UID = "4c1f0a2b-1c2d-4e5f-8a9b-0c1d2e3f4a5b"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return the root of a tree whose second moment comes while the command waits."""

    def unpacked(name: str) -> Path:
        root = tmp_path / "root"
        unpack(TREES / f"{name}.before.tree", root)

        class Walker(CgroupWalker):
            def __init__(self, at: Path) -> None:
                super().__init__(at, clock=lambda: uptime(at))

        def wait(*_: object) -> bool:
            unpack(TREES / f"{name}.after.tree", root)
            return True

        monkeypatch.setattr("slack.audit.sources.walker.CgroupWalker", Walker)
        monkeypatch.setattr(audit_taking, "_waited", wait)
        return root

    return unpacked


def kubelet_pods(*labels: str, owner: str = "api") -> str:
    """Return a kubelet's /pods that names recorded pods: each is shop/LABEL-1a with the one container LABEL."""
    return json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [_pod(label, owner) for label in labels]}
    )


def _pod(label: str, owner: str) -> Mapping[str, object]:
    reference = {"kind": "ReplicaSet", "name": f"{owner}-1a", "controller": True}
    return {
        "metadata": {
            "name": f"{label}-1a",
            "namespace": "shop",
            "uid": pod_uid(label),
            "labels": {"pod-template-hash": "1a"},
            "ownerReferences": [reference],
        },
        "spec": {"containers": [{"name": label, "resources": {"limits": {"cpu": "2"}}}]},
        "status": {"containerStatuses": [{"name": label, "containerID": f"containerd://{container_id(label)}"}]},
    }


def pod(name: str = "api-1a", uid: str = POD_UID, node: str = "") -> CgroupTarget:
    return CgroupTarget(CgroupLevel.POD, f"/kubepods/burstable/pod{uid}", node, uid, "", "shop", name)


def container(name: str = "main", of: str = "api-1a", uid: str = POD_UID, node: str = "") -> CgroupTarget:
    full = (name.encode().hex() * 64)[:64]
    return CgroupTarget(
        CgroupLevel.CONTAINER, f"/kubepods/burstable/pod{uid}/{full}", node, uid, full, "shop", of, name
    )


def rose(
    target: CgroupTarget,
    quota_us: int | None,
    *,
    throttled: int = 0,
    stop_ms: float = 0.0,
    use: float = 0.0,
    cpus: int = 2,
) -> tuple[Sample, Sample]:
    """Return two samples 10 s apart: 100 periods, so many of them throttled, each busy CPU for so long."""
    before = Sample(target, 0.0, quota_us, 100_000, 0, 0, 0, 0, burst_us=0)
    periods = 0 if quota_us is None else 100
    throttled_ns = round(throttled * stop_ms * cpus * 1e6)
    after = Sample(target, 10.0, quota_us, 100_000, periods, throttled, throttled_ns, round(use * 1e10), burst_us=0)
    return before, after


def look(
    *pairs: tuple[Sample, Sample],
    facts: Mapping[str, CgroupNodeFacts] | None = None,
    troubles: Mapping[ReadError, int] | None = None,
    pods: str | None = None,
    kind: SourceKind = SourceKind.CGROUPS,
) -> AuditResult:
    """Judge samples as the command does."""
    nodes = facts or {"": CgroupNodeFacts(2, "6.18.44", "#1 SMP", "v1")}
    first, second = zip(*pairs, strict=True) if pairs else ((), ())
    examples = {trouble: f"/kubepods/{trouble}/cpu.stat: {trouble}" for trouble in troubles or {}}
    names = None if pods is None else PodNames(decode_pods(pods.encode()))
    return evaluate(kind, Sampled(first, nodes), Sampled(second, nodes, troubles or {}, examples), names, AT)
