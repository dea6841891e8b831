"""An audit as markdown: it reads as text, and no name of anybody's choice ends a fence or a line."""

import json
import re

from slack.audit.findings.sample import CgroupLevel, CgroupTarget, ReadError
from slack.audit.results.audit_result import AuditResult
from slack.cli.audit.export import markdown
from tests.cli.audit.build import POD_UID, container, look, rose


def named(name: str = "api-1a") -> AuditResult:
    pods = {
        "items": [
            {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "uid": POD_UID,
                    "labels": {"pod-template-hash": "1a"},
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "api-1a", "controller": True}],
                },
                "spec": {"containers": [{"name": "main", "image": "golang", "resources": {"limits": {"cpu": "0.4"}}}]},
            }
        ]
    }
    bad = rose(container(of=name), 40_000, throttled=99, stop_ms=79.4, use=0.4)
    return look(bad, pods=json.dumps(pods))


def text(found: AuditResult) -> str:
    return markdown(found, found.findings, found.findings)


def test_evidence_and_reason_are_sentences() -> None:
    (first, *_) = (line for line in text(named()).splitlines() if line.startswith("1. "))
    assert "uses 0.40 of 0.40 cores. It uses all that it may and waits for more" in first
    assert first.endswith(".")
    assert "of periods" not in first or ". Throttled in 99.0% of 100 periods" in first
    assert all(line.endswith(".") for line in text(named()).splitlines() if line.strip().startswith(("Risk: ", "No ")))


def test_no_two_blank_lines_follow_each_other() -> None:
    told = text(named())
    assert told.count("```yaml") >= 2
    assert "\n\n\n" not in told
    assert told.endswith("```\n")


def test_a_name_can_neither_end_its_fence_nor_its_line_nor_move_a_cursor() -> None:
    told = text(named("api```\n\x1b[31m# gone"))
    assert told.replace("\n", "").isprintable()
    assert "\\n\\x1b[31m# gone" in told
    fences = [line.strip() for line in told.splitlines() if line.strip().startswith("```")]
    opened = [re.sub("[a-z]+$", "", line) for line in fences[::2]]
    assert opened == fences[1::2], "each fence is ended by its own length"
    (command,) = (at for at, line in enumerate(told.splitlines()) if "kubectl" in line)
    assert told.splitlines()[command - 1].strip() == "````sh"
    (row,) = (line for line in told.splitlines() if line.startswith("| 99"))
    assert "````shop/api```\\n" in row


def test_names_are_no_markup() -> None:
    odd = CgroupTarget(CgroupLevel.OTHER, "/a`b*c<img>[x](http://y)")
    found = look(rose(odd, 40_000, throttled=99, stop_ms=70, use=0.4), troubles={ReadError.FORBIDDEN: 1})
    (heading,) = (line for line in text(found).splitlines() if line.startswith("#### "))
    assert heading == "#### /a\\`b\\*c\\<img>\\[x](http://y)"
    assert "such as `/kubepods/forbidden/cpu.stat: forbidden`" in text(found)
