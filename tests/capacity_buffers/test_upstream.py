"""Sizes and quotas against what upstream's own functions gave for the same inputs; the data file names them."""

import json
from pathlib import Path
from typing import Any

import msgspec

from slack.capacity_buffers.api import BufferSpec
from slack.capacity_buffers.chunks import Chunk, chunk_of_template
from slack.capacity_buffers.quotas import QuotaLedger, count_allowed
from slack.capacity_buffers.sizes import InvalidSize, size_of
from slack.cluster import wire
from tests.capacity_buffers.scenes import quota

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("upstream_cases.json").read_text())


def _chunk(requests: dict[str, str]) -> Chunk:
    document = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    return chunk_of_template(msgspec.json.decode(msgspec.json.encode(document), type=wire.PodSpec), {})


def _size(case: dict[str, Any]) -> int | None:
    given = {name: case[name] for name in ("replicas", "percentage", "limits") if name in case}
    try:
        spec = msgspec.convert(given, BufferSpec)
        return size_of(spec, _chunk(case["requests"]).thousandths, case.get("scale"))
    except InvalidSize:
        return None


def _is_negative(case: dict[str, Any]) -> bool:
    numbers = [case.get("replicas", 0), case.get("percentage", 0)]
    return min(numbers) < 0 or any(text.startswith("-") for text in case.get("limits", {}).values())


def test_each_size_is_the_one_of_cluster_autoscaler() -> None:
    assert len(CASES["sizes"]) > 300
    differing = [(case, _size(case)) for case in CASES["sizes"] if _size(case) != case["clusterAutoscaler"]]

    assert differing == []


def test_karpenter_differs_in_what_the_page_names_and_in_nothing_else() -> None:
    for case in CASES["sizes"]:
        if _size(case) != case["karpenter"] and not _is_negative(case):
            is_percentage_of_none = case.get("scale") == 0 and "limits" in case and "replicas" not in case
            assert _size(case) is None or (is_percentage_of_none and _size(case) == 0), case


def test_each_quota_allows_what_it_allows_in_cluster_autoscaler() -> None:
    assert len(CASES["quotas"]) >= 80
    for case in CASES["quotas"]:
        chunk = _chunk(case["requests"])
        counting = QuotaLedger.from_quotas([quota(case["hard"], case["used"])]).matching(
            "shop", chunk.spec, chunk.thousandths
        )
        assert count_allowed(counting, chunk.usage, case["count"])[0] == case["allowed"], case
