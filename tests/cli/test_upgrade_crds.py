"""`upgrade-crds`: which definitions it writes into a cluster, and which it leaves alone."""

import json
from pathlib import Path

from slack.cli.crd import ANNOTATION_DIGEST, ANNOTATION_GENERATION, ANNOTATION_VERSION, CrdKind, definition_of
from slack.cli.upgrade_crds import is_newer
from tests.cases import run_for_each
from tests.cli.conftest import Run
from tests.cli.test_documents import as_declared
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi

PREFIX = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {kind: definition_of(kind) for kind in CrdKind}


def test_it_creates_changes_and_keeps_definitions(run: Run, tmp_path: Path) -> None:
    """One is absent, one is of Helm's first installation, one is up to date, and one belongs to a later version."""
    absent, old, same, later, *others = (definition["metadata"] for definition in KINDS.values())
    with FakeApi() as api:
        api.put(f"{PREFIX}/{old['name']}", spec={"group": "resource-slack.io"})
        for metadata in (same, *others):
            api.put(f"{PREFIX}/{metadata['name']}", metadata={"annotations": metadata["annotations"]})
        newer = {ANNOTATION_DIGEST: "0" * 16, ANNOTATION_VERSION: "99.0.0"}
        api.put(f"{PREFIX}/{later['name']}", metadata={"annotations": newer})
        found = run("upgrade-crds", "--kubeconfig", config(api, tmp_path), "-o", "json")
        assert found.code == 0, found.stderr
        shown = json.loads(found.stdout)
        as_declared("upgrade-crds", shown)
        outcomes = {item["name"]: item["outcome"] for item in shown["items"]}
        assert outcomes == {
            absent["name"]: "Created",
            old["name"]: "Changed",
            later["name"]: "Newer",
            **{metadata["name"]: "Unchanged" for metadata in (same, *others)},
        }
        written = [seen for seen in api.seen if "apply-patch" in seen.headers.get("Content-Type", "")]
        assert [seen.path for seen in written] == [f"{PREFIX}/{absent['name']}", f"{PREFIX}/{old['name']}"]
        assert json.loads(written[0].body) == KINDS[CrdKind.SLACK_POLICY]
        assert all(seen.query["force"] == "true" for seen in written), "Helm and kubectl have written it before"


def test_a_definition_that_somebody_changed_since_is_written_again(run: Run, tmp_path: Path) -> None:
    """An older chart's CRD, applied by hand, leaves our annotations on another spec."""
    name = KINDS[CrdKind.SLACK_POLICY]["metadata"]["name"]
    with FakeApi() as api:
        for definition in KINDS.values():
            metadata = definition["metadata"]
            api.put(f"{PREFIX}/{metadata['name']}", metadata={"annotations": metadata["annotations"], "generation": 1})
        annotations = {**KINDS[CrdKind.SLACK_POLICY]["metadata"]["annotations"], ANNOTATION_GENERATION: "2"}
        api.put(f"{PREFIX}/{name}", metadata={"annotations": annotations, "generation": 3})
        said = run("upgrade-crds", "--kubeconfig", config(api, tmp_path)).stdout
        assert f"customresourcedefinition {name} changed" in said
        assert said.count("is up to date") == len(KINDS) - 1


@run_for_each(
    ("there", "ours", "newer"),
    [
        ("0.2.0", "0.1.0", True),
        ("0.10.0", "0.9.9", True),
        ("0.1.0", "0.1.0", False),
        ("0.1.0", "0.2.0", False),
        ("0.2.0", "0.2.0-rc.1", True),
        ("0.2.0-rc.1", "0.2.0", False),
        ("0.2.0rc1", "0.2.0", False),
        ("", "0.1.0", False),
        ("main", "0.1.0", False),
    ],
)
def test_only_a_later_release_is_newer(there: str, ours: str, newer: bool) -> None:
    assert is_newer(there, ours) == newer


def test_the_digest_is_the_specs_and_no_other_fields() -> None:
    for definition in KINDS.values():
        annotations = definition["metadata"]["annotations"]
        assert len(annotations[ANNOTATION_DIGEST]) == 16
        assert annotations[ANNOTATION_VERSION]
    assert len({definition["metadata"]["annotations"][ANNOTATION_DIGEST] for definition in KINDS.values()}) == len(
        KINDS
    )
