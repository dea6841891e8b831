"""What keeps room, read from values alone; `migrate` itself is tested in tests/cli/migrate."""

import pytest

from slack.migration.findings import CannotMigrate
from slack.migration.policies import comments, merged, policy_of, rooms_in, warnings_of
from tests.cli.migrate.test_migrate import buffer, pause, pod_template, priority, proportional


def test_a_release_and_a_buffer_for_the_same_nodes_become_one_policy() -> None:
    box = pod_template({"cpu": "500m"}, nodeSelector={"pool": "web"})
    manifests = [
        pause("slack", 2, {"cpu": "1"}, nodeSelector={"pool": "web"}),
        buffer(podTemplateRef={"name": "box"}, replicas=3),
        box,
    ]
    (group,) = merged(rooms_in(manifests, None))
    assert [kept.name for kept in group] == ["slack", "web"]
    assert policy_of(group)["spec"] == {
        "nodeSelector": {"pool": "web"},
        "extraCapacity": {"minRate": 0, "floor": {"cpu": "3500m"}},
    }
    (warning,) = [text for text in warnings_of([group]) if "the same nodes" in text]
    assert warning.startswith("Deployment op/slack (2 x 1 cpu), CapacityBuffer shop/web: go to the same nodes")
    assert "# - 3 pods of PodTemplate box -> spec.extraCapacity.floor" in comments(group)


def test_only_what_is_chosen_is_read_and_that_however_it_looks() -> None:
    real = pause("web", 2, image="x", priorityClassName="none")
    real["spec"]["template"]["spec"]["containers"][0]["image"] = "shop/web:1"
    assert rooms_in([real], None) == []
    assert [kept.name for kept in rooms_in([real, pause("slack")], None, chosen=real)] == ["web"]


def test_a_size_that_cannot_be_told_is_refused_by_the_objects_name() -> None:
    with pytest.raises(CannotMigrate, match=r"^CapacityBuffer shop/web: expected either spec\.podTemplateRef or"):
        rooms_in([buffer()], None)
    with pytest.raises(CannotMigrate, match=r"^ConfigMap sizes: expected an object such as"):
        rooms_in([pause("slack"), *proportional("slack", ladder=[1])], None)


def test_a_priority_class_is_found_by_its_name() -> None:
    (kept,) = rooms_in([pause("slack"), priority(-20)], None)
    assert any("is below the Cluster Autoscaler's cut-off of -10" in text for text in kept.warnings)
