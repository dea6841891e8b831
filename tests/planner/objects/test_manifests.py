"""The placeholder pod, field by field (slack-peers 6.3)."""

import json
import re
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.classes import Requirement, Toleration
from slack.cluster.labels import LABEL_POLICY, LABEL_SHAPE, LABELS_AGAINST_INJECTION
from slack.cluster.wire import ReplicaSet
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.adoption import existing_shapes
from slack.planner.objects.drift import same_room
from slack.planner.objects.manifests import pod_spec, priority_class, replica_set, replica_set_name
from slack.planner.policy.placeholders import Placeholders, PodSecurity, PullSecret, SecurityProfile
from tests.cases import run_for_each
from tests.cluster.build import Json

GI = 1 << 30
SHAPE = Shape((("cpu", 500), ("memory", GI), ("nvidia.com/gpu", 1)))
OWNER = {
    "apiVersion": "resource-slack.io/v1alpha1",
    "kind": "SlackPolicy",
    "name": "web",
    "uid": "u",
    "controller": True,
}


def made(shape: Shape = SHAPE, policy: str = "web", *, retiring: bool = False) -> Json:
    return replica_set(policy, shape, Role.FILL, 7, namespace="resource-slack", owner=OWNER, retiring=retiring)


def the_spec(shape: Shape = SHAPE) -> Json:
    spec: Json = made(shape)["spec"]["template"]["spec"]
    return spec


def test_no_line_that_explains_a_pending_pod_is_cut_off_by_kubectl() -> None:
    """`kubectl describe` prints an annotation line by line, of each the first 138 characters."""
    unbound = replace(SHAPE, unbound_scheduler="resource-slack.io/unbound")
    said = made(unbound)["spec"]["template"]["metadata"]["annotations"]["resource-slack.io/why-pending"]
    assert "not an error" in said
    assert max(map(len, said.splitlines())) <= 138
    assert "resource-slack.io/why-pending" not in made()["spec"]["template"]["metadata"]["annotations"]


def test_it_leaves_at_once() -> None:
    """Grace 0 literally: left out it would be 30 seconds, and each preemption would wait for them."""
    assert the_spec()["terminationGracePeriodSeconds"] == 0


def test_requests_only_but_for_extended_resources() -> None:
    """With limits on cpu and memory it would be Guaranteed and take exclusive cores."""
    assert the_spec()["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    plain = Shape((("cpu", 2000), ("ephemeral-storage", GI)))
    assert the_spec(plain)["containers"][0]["resources"] == {"requests": {"cpu": "2", "ephemeral-storage": "1Gi"}}
    pages = Shape((("cpu", 1), ("hugepages-2Mi", 4 << 20)))
    assert the_spec(pages)["containers"][0]["resources"]["limits"] == {"hugepages-2Mi": "4Mi"}


def test_it_passes_pod_security_restricted() -> None:
    spec = the_spec()
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(spec)


def test_where_the_cluster_gives_users_out_no_user_is_named() -> None:
    assert pod_spec("web", SHAPE, "pause", None)["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod_spec("web", SHAPE, "pause", 1_000_680_000)["securityContext"]["runAsUser"] == 1_000_680_000


def test_it_has_nothing_that_holds_a_node_or_costs_something() -> None:
    spec = the_spec()
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert not {"initContainers", "volumes", "preemptionPolicy", "priority", "affinity", "nodeSelector"} & set(spec)
    assert not {"livenessProbe", "readinessProbe", "ports", "lifecycle"} & set(spec["containers"][0])
    text = json.dumps(made())
    assert "do-not-disrupt" not in text
    assert "deletion-cost" not in text
    annotations = made()["spec"]["template"]["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    assert annotations["cluster-autoscaler.kubernetes.io/pod-scale-up-delay"] == "3s"


def test_its_pods_tell_the_usual_injectors_to_leave_them_alone_and_its_selector_does_not() -> None:
    found = made()
    template = found["spec"]["template"]["metadata"]
    assert template["labels"].items() >= {
        ("sidecar.istio.io/inject", "false"),
        ("kuma.io/sidecar-injection", "disabled"),
        ("admission.datadoghq.com/enabled", "false"),
    }
    assert template["annotations"].items() >= {
        ("linkerd.io/inject", "disabled"),
        ("dapr.io/enabled", "false"),
        ("vault.hashicorp.com/agent-inject", "false"),
        ("consul.hashicorp.com/connect-inject", "false"),
        ("sidecar.opentelemetry.io/inject", "false"),
        ("instrumentation.opentelemetry.io/inject-java", "false"),
    }
    # A selector cannot be changed: with one of these in it, each upgrade would make all placeholders anew.
    assert set(found["spec"]["selector"]["matchLabels"]) == {LABEL_POLICY, LABEL_SHAPE}
    assert not set(found["metadata"]["labels"]) & set(LABELS_AGAINST_INJECTION)


def test_it_leaves_lost_nodes_at_once_and_tolerates_nothing_else() -> None:
    assert the_spec()["tolerations"] == [
        {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
        for state in ("not-ready", "unreachable")
    ]
    own = Shape((("cpu", 1),), tolerations=(Toleration("dedicated", "Equal", "db", ""),))
    assert the_spec(own)["tolerations"][0] == {"key": "dedicated", "operator": "Equal", "value": "db"}


def test_it_spreads_softly_over_zones_and_hosts() -> None:
    spread = the_spec()["topologySpreadConstraints"]
    assert [c["topologyKey"] for c in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert {c["whenUnsatisfiable"] for c in spread} == {"ScheduleAnyway"}
    assert all(c["labelSelector"] == {"matchLabels": {LABEL_POLICY: "web"}} for c in spread)
    hard = Shape((("cpu", 1),), topology_spread='[{"topologyKey":"kubernetes.io/hostname","maxSkew":1}]')
    assert [c["topologyKey"] for c in the_spec(hard)["topologySpreadConstraints"]] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]


def test_constraints_are_written_as_the_api_takes_them() -> None:
    shape = Shape(
        (("cpu", 1),),
        node_selector=(("pool", "web"),),
        node_affinity=(
            (Requirement("a", "In", ("1", "2")), Requirement("metadata.name", "In", ("n",), True)),
            (Requirement("b", "Exists", ()),),
        ),
        runtime_class="kata",
        scheduler_name="volcano",
        priority_class_name="gold",
    )
    spec = pod_spec("web", shape, "pause:1")
    assert spec["nodeSelector"] == {"pool": "web"}
    assert spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
        },
        {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
    ]
    assert (spec["runtimeClassName"], spec["schedulerName"], spec["priorityClassName"]) == ("kata", "volcano", "gold")
    assert spec["containers"][0]["image"] == "pause:1"


def test_one_replica_set_per_shape_owned_by_its_policy() -> None:
    """S4: its pods are all alike, so the autoscaler groups them (R1-1)."""
    found = made()
    assert found["spec"]["replicas"] == 7
    assert found["metadata"]["ownerReferences"] == [OWNER]
    labels = found["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert set(found["spec"]["selector"]["matchLabels"]) == {LABEL_POLICY, LABEL_SHAPE}
    bare = replica_set("web", SHAPE, Role.COVER, 1, namespace="x", owner=None)
    assert "ownerReferences" not in bare["metadata"]


@pytest.mark.parametrize(
    "policy",
    [
        "web",
        "a.b",
        "a-b",
        "x" * 63,
        "x" * 253,
        "v1.2.3",
        "ends-with-dash-at-the-cut-here-ab-----c-d",
        "a" * 34 + "." + "b" * 20,
    ],
)
def test_names_are_dns_labels_with_room_for_a_pods_suffix(policy: str) -> None:
    name = replica_set_name(policy, SHAPE)
    assert len(name) <= 57
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert name.endswith(SHAPE.name)


def test_policies_never_share_a_name() -> None:
    names = ["a.b", "a-b", "x" * 60, "x" * 61, "x" * 60 + "y"]
    assert len({replica_set_name(policy, SHAPE) for policy in names}) == len(names)


def test_the_priority_class_is_the_lowest_that_autoscalers_still_see() -> None:
    """-10, never the default, and its pods preempt nobody."""
    found = priority_class()
    assert (found["value"], found["preemptionPolicy"], found["globalDefault"]) == (-10, "Never", False)


def read(item: Json) -> ExistingShape | None:
    found = existing_shapes([msgspec.json.decode(msgspec.json.encode(item), type=ReplicaSet)], {"web": None})
    return found[0] if found else None


def test_a_restarted_operator_reads_back_what_it_wrote() -> None:
    assert read(made()) == ExistingShape("web", SHAPE, Role.FILL, 7, retiring=False)
    assert read(made(retiring=True)) == ExistingShape("web", SHAPE, Role.FILL, 7, retiring=True)
    defaulted = made()
    del defaulted["spec"]["replicas"]
    assert read(defaulted) == ExistingShape("web", SHAPE, Role.FILL, 1)


def test_what_was_edited_by_hand_or_is_going_is_not_taken_over() -> None:
    changes: list[Json] = [
        {"annotations": {}},
        {"annotations": {"resource-slack.io/spec": "{", "resource-slack.io/role": "fill"}},
        {"annotations": {"resource-slack.io/spec": SHAPE.to_json(), "resource-slack.io/role": "king"}},
        {"labels": {LABEL_POLICY: "other", LABEL_SHAPE: SHAPE.name}},
        {"name": "slack-web-00000000"},
        {"labels": {LABEL_SHAPE: SHAPE.name}},
        {"deletionTimestamp": "2027-01-15T07:00:00Z"},
    ]
    for change in changes:
        item = made()
        item["metadata"] |= change
        assert read(item) is None


def test_soft_spread_leaves_room_for_several_placeholders_on_a_node() -> None:
    """Karpenter makes a node for every placeholder where the skew is 1, for it takes preferences for musts."""
    spread = pod_spec("web", Shape((("cpu", 500),)), "pause")["topologySpreadConstraints"]
    assert {c["topologyKey"] for c in spread} == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}
    assert all(c["whenUnsatisfiable"] == "ScheduleAnyway" and c["maxSkew"] == 5 for c in spread)


EXTRAS = Placeholders.model_validate(
    {
        "labels": {"team": "platform", "app.kubernetes.io/name": "slack"},
        "annotations": {"owner": "Platform <p@corp.example>"},
        "limits": "Requests",
        "imagePullSecrets": [{"name": "corp"}, {"name": "corp"}],
    }
)


def with_extras(extras: Placeholders, shape: Shape = SHAPE) -> Json:
    return replica_set("web", shape, Role.FILL, 7, namespace="resource-slack", owner=OWNER, extras=extras)


def test_the_template_has_what_the_policy_gives_placeholders_and_the_selector_has_not() -> None:
    found = with_extras(EXTRAS)
    template = found["spec"]["template"]
    assert template["metadata"]["labels"] == made()["spec"]["template"]["metadata"]["labels"] | EXTRAS.labels
    assert template["metadata"]["annotations"].items() > made()["spec"]["template"]["metadata"]["annotations"].items()
    assert template["metadata"]["annotations"]["owner"] == "Platform <p@corp.example>"
    assert template["spec"]["imagePullSecrets"] == [{"name": "corp"}]
    resources = template["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    assert found["metadata"] == made()["metadata"]
    assert found["spec"]["selector"] == made()["spec"]["selector"]


def test_a_memory_limit_lets_the_container_start() -> None:
    tiny = Shape((("cpu", 10), ("memory", 1 << 20)))
    (container,) = with_extras(EXTRAS, tiny)["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "10m", "memory": "1Mi"},
        "limits": {"cpu": "10m", "memory": "16Mi"},
    }


@run_for_each("user", [65535, None])
@run_for_each(
    ("given", "ids"),
    [
        ({}, {}),
        ({"runAsUser": 1000}, {"runAsUser": 1000, "runAsGroup": 1000}),
        ({"runAsUser": 1000, "runAsGroup": 7}, {"runAsUser": 1000, "runAsGroup": 7}),
        ({"runAsGroup": 7}, {"runAsGroup": 7}),
        ({"fsGroup": 5, "supplementalGroups": [9, 8, 9]}, {"fsGroup": 5, "supplementalGroups": [9, 8]}),
        ({"appArmorProfile": {}}, {"appArmorProfile": {"type": "RuntimeDefault"}}),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}},
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}},
        ),
    ],
)
def test_a_security_context_that_is_given_changes_its_own_fields_only(given: Json, ids: Json, user: int | None) -> None:
    whose = {} if user is None else {"runAsUser": user, "runAsGroup": user}
    extras = Placeholders.model_validate({"securityContext": given})
    found = pod_spec("web", SHAPE, "pause", user, extras)["securityContext"]
    assert found == {"runAsNonRoot": True, **whose, "seccompProfile": {"type": "RuntimeDefault"}} | ids


_TEXTS = st.text("abcxyz019", min_size=1, max_size=8)
_IDS = st.integers(1, 2**31 - 1)
_PROFILES = st.sampled_from((None, SecurityProfile(), SecurityProfile(type="Localhost", localhost_profile="p")))


@given(
    st.builds(
        Placeholders,
        labels=st.dictionaries(_TEXTS, _TEXTS, max_size=3),
        annotations=st.dictionaries(_TEXTS, _TEXTS, max_size=3),
        limits=st.sampled_from(("None", "Requests")),
        image_pull_secrets=st.lists(st.builds(PullSecret, name=_TEXTS), max_size=3).map(tuple),
        security_context=st.builds(
            PodSecurity,
            run_as_user=_IDS | st.none(),
            run_as_group=_IDS | st.none(),
            fs_group=_IDS | st.none(),
            supplemental_groups=st.lists(_IDS, max_size=3).map(tuple),
            seccomp_profile=_PROFILES,
            app_armor_profile=_PROFILES,
        ),
    ),
    st.sampled_from((SHAPE, replace(SHAPE, unbound_scheduler="resource-slack.io/unbound"))),
)
def test_what_the_policy_gives_placeholders_names_no_shape_takes_nothing_of_ours_and_stays_restricted(
    extras: Placeholders, shape: Shape
) -> None:
    found, plain = with_extras(extras, shape), made(shape)
    assert found["metadata"] == plain["metadata"]
    assert found["spec"]["selector"] == plain["spec"]["selector"]
    template, bare = found["spec"]["template"], plain["spec"]["template"]
    for field in ("labels", "annotations"):
        assert template["metadata"][field].items() >= bare["metadata"][field].items()
    assert same_room(bare, template)
    spec, before = template["spec"], bare["spec"]
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["runAsGroup"] > 0
    assert security["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
    assert spec["containers"][0]["securityContext"] == before["containers"][0]["securityContext"]
    assert set(spec) - set(before) <= {"imagePullSecrets"}
