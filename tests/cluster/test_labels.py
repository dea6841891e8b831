"""Names on objects: their values are an interface, and each is written down once."""

import ast
from pathlib import Path

from slack.cluster import labels

ROOT = Path(__file__).parents[2]
NAMES = {name: value for name, value in vars(labels).items() if name.isupper() and isinstance(value, str)}


def test_what_an_upgrade_finds_on_placeholders_never_changes() -> None:
    ours = {name: value for name, value in NAMES.items() if "resource-slack" in value}
    assert ours == {
        "API_VERSION": "resource-slack.io/v1alpha1",
        "DEFAULT_NAMESPACE": "resource-slack",
        "MANAGED_BY": "resource-slack",
        "FIELD_MANAGER": "resource-slack",
        "AUDIT_FIELD_MANAGER": "resource-slack-audit",
        "THROTTLER_FIELD_MANAGER": "resource-slack-throttler",
        "DEMAND_FIELD_MANAGER": "resource-slack-demand",
        "LABEL_POOL": "resource-slack.io/pool",
        "LABEL_POOL_REVISION": "resource-slack.io/pool-revision",
        "LABEL_CREATION": "resource-slack.io/creation",
        "ANNOTATION_SUBJECT": "resource-slack.io/subject",
        "ANNOTATION_RETIRED_SUBJECTS": "resource-slack.io/retired-subjects",
        "PRIORITY_CLASS": "resource-slack",
        "SUSPENDED_PRIORITY_CLASS": "resource-slack-makes-way",
        "CREATION_BLOCK": "resource-slack-brake",
        "LABEL_PLACEHOLDER": "resource-slack.io/placeholder",
        "LABEL_POLICY": "resource-slack.io/policy",
        "LABEL_SHAPE": "resource-slack.io/shape",
        "LABEL_RESERVED_FOR": "resource-slack.io/reserved-for",
        "LABEL_HOLD": "resource-slack.io/hold",
        "LABEL_BUFFER": "resource-slack.io/buffer",
        "ANNOTATION_BUFFER": "resource-slack.io/buffer-name",
        "ANNOTATION_BUFFER_CREATED": "resource-slack.io/buffer-created",
        "ANNOTATION_SERVED_BY": "resource-slack.io/served-by",
        "LABEL_RELEASE": "resource-slack.io/release",
        "SOFT_TAINT": "resource-slack.io/slack",
        "LABEL_WARM": "resource-slack.io/warm",
        "ANNOTATION_WHY_PENDING": "resource-slack.io/why-pending",
        "ANNOTATION_WHY_MARKER": "resource-slack.io/why",
        "ANNOTATION_RESERVED_FOR": "resource-slack.io/reserved-for",
        "ANNOTATION_SPEC": "resource-slack.io/spec",
        "ANNOTATION_APPLIED": "resource-slack.io/applied",
        "ANNOTATION_ROLE": "resource-slack.io/role",
        "ANNOTATION_RETIRING": "resource-slack.io/retiring",
        "ANNOTATION_FORMER_LIMITS": "audit.resource-slack.io/former-limits",
        "ANNOTATION_RESERVE": "resource-slack.io/reserve",
        "ANNOTATION_EXCLUDE": "resource-slack.io/exclude",
        "ANNOTATION_BUILT_IN_POLICY": "resource-slack.io/built-in-policy",
        "ANNOTATION_LATENCY": "audit.resource-slack.io/latency",
    }


def test_no_name_is_declared_a_second_time() -> None:
    declared = {value for value in NAMES.values() if "/" in value or value == labels.LABEL_TEMPLATE_HASH}
    domains = {value.partition("/")[0] for value in declared}
    again = []
    for path in sorted([*ROOT.glob("slack/**/*.py"), *ROOT.glob("operator/**/*.py")]):
        if path == ROOT / "slack/cluster/labels.py":
            continue
        text = path.read_text()
        if not any(domain in text for domain in domains):
            continue  # not worth a parse
        constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
        again += [(str(path.relative_to(ROOT)), value) for value in constants if value in declared]
    # a Literal takes no name
    scenario = ("slack/simulator/scenario/scenario.py", labels.API_VERSION)
    assert again == [("slack/cli/documents/record.py", labels.API_VERSION), scenario, scenario]


def test_it_imports_nothing() -> None:
    tree = ast.parse((ROOT / "slack/cluster/labels.py").read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    package = ast.parse((ROOT / "slack/cluster/__init__.py").read_text())
    assert len(package.body) == 1  # a docstring: whoever imports a name loads nothing else of this room
