"""The examples of pools and quotas are good ones, those of the chart's values too, and say their defaults truly."""

from pathlib import Path
from typing import Any

import yaml

from slack.demand.policy import ActivationPoolSpec, parse_pool, parse_quota

ROOT = Path(__file__).parents[2]
API = "resource-slack.io/v1alpha1"


def example(name: str) -> Any:
    return yaml.safe_load((ROOT / "examples" / name).read_text(encoding="utf-8"))


def test_the_pool_with_comments_is_a_good_one_and_has_every_part() -> None:
    document = example("activationpool.yaml")
    pool = parse_pool(document, source="activationpool.yaml")
    assert pool.subject == "act.media.thumbnail.256"
    parts = {field.alias or name for name, field in ActivationPoolSpec.model_fields.items()}
    assert parts == document["spec"].keys()


def test_what_the_pool_s_comments_call_defaults_are_defaults() -> None:
    document = example("activationpool.yaml")
    bare = {**document, "spec": {"template": document["spec"]["template"]}}
    written, default = (parse_pool(one, source="activationpool.yaml").spec for one in (document, bare))
    for part in ("mode", "queue", "proxy", "limits", "retention", "demand"):
        assert getattr(written, part) == getattr(default, part), part
    changed = {
        name
        for name in type(written.timing).model_fields
        if getattr(written.timing, name) != getattr(default.timing, name)
    }
    assert changed == {"expected_duration", "longest_run"}


def test_the_quota_with_comments_is_a_good_one() -> None:
    quota = parse_quota(example("activationquota.yaml"), source="activationquota.yaml")
    assert quota.spec.max_containers == 40
    assert quota.spec.weights == {"thumbnail": 2}


def test_pools_and_quotas_of_the_chart_s_example_are_good() -> None:
    path = ROOT / "charts" / "resource-slack" / "examples" / "demand.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))["demand"]
    for kind, parse in (("ActivationPool", parse_pool), ("ActivationQuota", parse_quota)):
        for namespace, objects in values["pools" if kind == "ActivationPool" else "quotas"].items():
            assert objects
            for name, spec in objects.items():
                metadata = {"name": name, "namespace": namespace}
                document = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
                assert parse(document, source=path.name).namespace in values["namespaces"]
