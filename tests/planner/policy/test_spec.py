"""SlackPolicy: `spec: {}` is a good policy (R4), and every complaint names the field's path."""

from datetime import timedelta

import pytest

from slack.cluster.amounts import NO_CORES, NO_RESOURCE, TOO_FEW_BYTES
from slack.cluster.duration import parse_duration
from slack.cluster.labels import (
    ANNOTATION_DELETION_COST,
    ANNOTATION_LATENCY,
    ANNOTATION_SAFE_TO_EVICT,
    ANNOTATION_SCALE_UP_DELAY,
    ANNOTATION_WHY_PENDING,
    ANNOTATIONS_AGAINST_INJECTION,
    LABEL_HOLD,
    LABEL_MANAGED_BY,
    LABEL_POD_GROUP,
    LABEL_POLICY,
    LABEL_SHAPE,
    LABELS_AGAINST_INJECTION,
)
from slack.cluster.rates import NEEDS_CEILING
from slack.planner.policy.placeholders import ANNOTATION_TAKEN, LABEL_TAKEN, LOCAL_PROFILE, NO_SECRET, Placeholders
from slack.planner.policy.spec import CoverMode, InvalidPolicy, Policy, parse_policy
from tests.cases import run_for_each
from tests.cluster.build import Json


def parsed(spec: Json | None = None, **top: object) -> Policy:
    document = {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    return parse_policy(document | top, source="file.yaml")


def test_an_empty_spec_is_a_good_policy() -> None:
    for policy in (parsed({}), parsed(None)):
        assert policy.spec.extra_capacity.min_rate is None  # then --extra-capacity-min-rate
        assert policy.spec.cover.mode is CoverMode.FREQUENT
        assert (policy.spec.cover.coverage, policy.spec.cover.max_shapes, policy.spec.granularity) == (0.99, 8, 5)
        assert policy.spec.stabilization.shrink_delay == timedelta(minutes=10)
        assert policy.spec.stabilization.give_up_after == timedelta(minutes=20)


def test_the_designs_example_is_read() -> None:
    spec: Json = {
        "nodeSelector": {"pool": "web"},
        "tolerations": [],
        "perDomain": "None",
        "extraCapacity": {
            "minRate": 0.1,
            "base": "Requested",
            "floor": {"cpu": "2", "memory": "4Gi"},
            "ceiling": {"cpu": "64", "memory": "256Gi"},
            "replicas": None,
            "ladder": [{"fromNodes": 0, "minRate": 0.5}, {"fromNodes": 20, "minRate": 0.1}],
            "schedule": [
                {
                    "name": "workdays",
                    "cron": "0 7 * * 1-5",
                    "duration": "12h",
                    "timeZone": "Europe/Berlin",
                    "minRate": 0.3,
                },
                {"start": "2026-11-27T06:00:00Z", "until": "2026-11-28T06:00:00+01:00", "replicas": 3},
            ],
        },
        "cover": {"mode": "Frequent", "coverage": 0.99, "maxShapes": 8, "exclude": [{"ownerKind": "StatefulSet"}]},
        "granularity": 5,
        "stabilization": {"shrinkDelay": "10m", "shapeTolerance": 0.1, "giveUpAfter": "20m"},
        "priorityClassName": "resource-slack",
        "makeWay": True,
        "dryRun": False,
    }
    policy = parsed(spec, metadata={"name": "web", "uid": "u", "generation": 3})
    assert policy.spec.extra_capacity.floor == {"cpu": 2000, "memory": 4 << 30}
    assert (policy.uid, policy.generation) == ("u", 3)


def test_an_objective_goes_with_floor_ceiling_and_windows_that_raise_the_floor() -> None:
    window = {"cron": "0 7 * * *", "duration": "1h", "floor": {"cpu": "4"}}
    extra = {"floor": {"cpu": "2"}, "ceiling": {"cpu": "8"}, "ladder": [], "schedule": [window]}
    objective = parsed({"objective": OBJECTIVE, "extraCapacity": extra}).spec.objective
    assert objective is not None
    assert (objective.instant_start, objective.prices, objective.max_cost_per_hour) == (0.99, {}, None)


OBJECTIVE = {"instantStart": 0.99}
EXCLUDED = "spec: objective is in place of extraCapacity's minRate, replicas, nodes and ladder; give one of them"
CRON = {"cron": "0 7 * * *", "duration": "1h", "minRate": 0.1}
WRONG: list[tuple[Json, str]] = [
    ({"extraCapacity": {"minRate": "10%"}}, "spec.extraCapacity.minRate: '10%' is text; write a number, 0.1"),
    ({"extraCapacity": {"minRate": "much"}}, "spec.extraCapacity.minRate: 'much' is text; write a number such as 0.1"),
    ({"extraCapacity": {"minRate": True}}, "spec.extraCapacity.minRate: True is not a number"),
    (
        {"extraCapacity": {"minRate": 10.5}},
        "spec.extraCapacity.minRate: input should be less than or equal to 10, not 10.5",
    ),
    ({"extraCapacity": {"minRate": 10}}, f"spec.extraCapacity: {NEEDS_CEILING}"),
    ({"extraCapacity": {"minRate": 1.01, "ceiling": {"cpu": "4"}}}, f"spec.extraCapacity: {NEEDS_CEILING}"),
    ({"extraCapacity": {"ladder": [{"fromNodes": 0, "minRate": 2}]}}, f"spec.extraCapacity: {NEEDS_CEILING}"),
    ({"extraCapacity": {"schedule": [{**CRON, "minRate": 2}]}}, f"spec.extraCapacity: {NEEDS_CEILING}"),
    ({"extraCapacity": {"minRate": -0.1}}, "greater than or equal to 0"),
    ({"extraCapacity": {"minRate": float("nan")}}, "spec.extraCapacity.minRate: "),
    ({"extraCapacity": {"floor": {"cpu": "lots"}}}, "spec.extraCapacity.floor: cpu: "),
    ({"extraCapacity": {"floor": {"memory": "-1Gi"}}}, "memory: '-1Gi' is negative; write 0 or more"),
    ({"extraCapacity": {"floor": 3}}, "spec.extraCapacity.floor: expected fields, found int"),
    (
        {"extraCapacity": {"ceiling": {"Cpu": "2"}}},
        f"spec.extraCapacity.ceiling: Cpu: {NO_RESOURCE}; did you mean cpu?",
    ),
    ({"extraCapacity": {"ceiling": {"mem": "2Gi"}}}, f"mem: {NO_RESOURCE}; did you mean memory?"),
    ({"extraCapacity": {"floor": {"CPU": 2}}}, f"spec.extraCapacity.floor: CPU: {NO_RESOURCE}; did you mean cpu?"),
    ({"extraCapacity": {"floor": {"cpu": 0.5}}}, "cpu: 0.5 is neither a whole number nor text; write it in quotes"),
    ({"extraCapacity": {"floor": {"gpu": 1}}}, f"gpu: {NO_RESOURCE}"),
    ({"extraCapacity": {"floor": {"nvidia.com/": 1}}}, f"nvidia.com/: {NO_RESOURCE}"),
    ({"extraCapacity": {"ceiling": {"cpu": "2Gi"}}}, f"spec.extraCapacity.ceiling: cpu: {NO_CORES}, not '2Gi'"),
    ({"extraCapacity": {"ceiling": {"cpu": "512M"}}}, f"cpu: {NO_CORES}, not '512M'"),
    (
        {"extraCapacity": {"ceiling": {"memory": "64"}}},
        f"spec.extraCapacity.ceiling: memory: {TOO_FEW_BYTES}, not '64'",
    ),
    ({"extraCapacity": {"ceiling": {"memory": 64}}}, f"memory: {TOO_FEW_BYTES}, not '64'"),
    ({"extraCapacity": {"ceiling": {"memory": "64m"}}}, f"memory: {TOO_FEW_BYTES}, not '64m'"),
    ({"extraCapacity": {"ceiling": {"ephemeral-storage": "10"}}}, f"ephemeral-storage: {TOO_FEW_BYTES}"),
    ({"extraCapacity": {"ladder": [{"fromRequested": {"Cpu": "9"}, "minRate": 0.1}]}}, f"Cpu: {NO_RESOURCE}"),
    ({"reserve": {"ceiling": {"memory": "9"}}}, f"spec.reserve.ceiling: memory: {TOO_FEW_BYTES}"),
    ({"extra_capacity": {"min_rate": 0.2}}, "spec.extra_capacity: unknown field; did you mean extraCapacity?"),
    ({"extraCapacity": {"min_rate": 0.2}}, "spec.extraCapacity.min_rate: unknown field; did you mean minRate?"),
    ({"node_selector": {"a": "b"}}, "spec.node_selector: unknown field; did you mean nodeSelector?"),
    ({"dry_run": True}, "spec.dry_run: unknown field; did you mean dryRun?"),
    ({"extraCapacity": None}, "spec.extraCapacity: is null; leave it out, or give it fields such as minRate"),
    ({"extraCapacity": 3}, "spec.extraCapacity: expected fields such as minRate, found int"),
    ({"extraCapacity": {"minRate": "1e-1"}}, "'1e-1' is text; write a number, 0.1"),
    ({"extraCapacity": {"minRate": "1e400"}}, "'1e400' is text; write a number such as 0.1"),
    ({"extraCapacity": {"minRate": float("inf")}}, "inf is no rate; write a number such as 0.1"),
    ({"granularity": "5"}, "spec.granularity: '5' is text; write a whole number, 5"),
    ({"granularity": True}, "spec.granularity: True is not a number; write a whole number such as 5"),
    ({"extraCapacity": {"replicas": "many"}}, "spec.extraCapacity.replicas: 'many' is text; write a whole number such"),
    ({"cover": {"coverage": "0.9"}}, "spec.cover.coverage: '0.9' is text; write a number, 0.9"),
    ({"makeWay": "yes"}, "spec.makeWay: 'yes' is neither true nor false"),
    ({"dryRun": "true"}, "spec.dryRun: 'true' is neither true nor false; write it without quotes"),
    (
        {"extraCapacity": {"floor": {"cpu": "2"}, "ceiling": {"cpu": "1"}}},
        "spec.extraCapacity: floor.cpu is above ceiling.cpu",
    ),
    ({"extraCapacity": {"ladder": [{"minRate": 1}]}}, "spec.extraCapacity.ladder[0]: give exactly one of fromNodes"),
    ({"extraCapacity": {"schedule": [{"minRate": 1}]}}, "schedule[0]: give either cron with duration, or start"),
    ({"extraCapacity": {"schedule": [{**CRON, "duration": None}]}}, "a cron window needs a duration"),
    ({"extraCapacity": {"schedule": [{**CRON, "duration": "0s"}]}}, "a cron window needs a duration"),
    ({"extraCapacity": {"schedule": [{**CRON, "minRate": None}]}}, "the window changes nothing"),
    ({"extraCapacity": {"schedule": [{**CRON, "cron": "at seven"}]}}, "is not a cron expression of five fields"),
    ({"extraCapacity": {"schedule": [{**CRON, "cron": "0 0 30 2 *"}]}}, "is not a cron expression of five fields"),
    ({"extraCapacity": {"schedule": [{**CRON, "cron": "0 0 7 * * *"}]}}, "of five fields: it has 6"),
    ({"extraCapacity": {"schedule": [{**CRON, "timeZone": "Berlin"}]}}, "'Berlin' is not an IANA time zone"),
    ({"extraCapacity": {"schedule": [{**CRON, "timeZone": "../etc/passwd"}]}}, "is not an IANA time zone"),
    (
        {"extraCapacity": {"schedule": [{"start": "2026-11-27T06:00:00Z", "minRate": 1}]}},
        "start and until are both needed",
    ),
    (
        {
            "extraCapacity": {
                "schedule": [{"start": "2026-11-27T06:00:00", "until": "2026-11-28T06:00:00", "minRate": 1}]
            }
        },
        "with an offset",
    ),
    (
        {
            "extraCapacity": {
                "schedule": [{"start": "2026-11-27T06:00:00Z", "until": "2026-11-26T06:00:00Z", "minRate": 1}]
            }
        },
        "until is not after start",
    ),
    ({"stabilization": {"shrinkDelay": "ten"}}, "spec.stabilization.shrinkDelay: 'ten' is not a duration such as 30s"),
    ({"stabilization": {"shrinkDelay": 600}}, "600 is not a duration"),
    ({"stabilization": {"shrinkDelay": "99999999999999999h"}}, "is longer than any clock counts"),
    ({"cover": {"exclude": [{}]}}, "spec.cover.exclude[0]: an empty selector would exclude every pod"),
    ({"cover": {"mode": "Most"}}, "spec.cover.mode: "),
    ({"capacityBuffers": "Add"}, "spec.capacityBuffers: "),
    (
        {"tolerations": [{"operator": "Exists"}]},
        "spec.tolerations[0]: a toleration without a key tolerates every taint",
    ),
    ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "operator Exists takes no value"),
    ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector: 'a b' is not a label key"),
    ({"nodeSelector": {"a": "b c"}}, "spec.nodeSelector: a: 'b c' is not a label value"),
    (
        {"nodeTemplates": [{"name": "x", "allocatable": {"cpu": "1"}}]},
        "spec.nodeTemplates[0]: allocatable needs memory",
    ),
    ({"granularty": 5}, "spec.granularty: unknown field; did you mean granularity?"),
    (
        {"extraCapacity": {"minrate": 0.1}},
        "spec.extraCapacity.minrate: unknown field; did you mean minRate?",
    ),
    ({"objective": OBJECTIVE, "extraCapacity": {"minRate": 0}}, EXCLUDED),
    ({"objective": OBJECTIVE, "extraCapacity": {"replicas": 0}}, EXCLUDED),
    ({"objective": OBJECTIVE, "extraCapacity": {"ladder": [{"fromNodes": 0, "minRate": 0.1}]}}, EXCLUDED),
    (
        {"objective": OBJECTIVE, "extraCapacity": {"schedule": [CRON]}},
        "spec: with an objective a window of extraCapacity.schedule can raise the floor only",
    ),
    (
        {"schedulerName": "resource-slack.io/unbound"},
        "spec: schedulerName is that of real pods, and no scheduler has the name resource-slack.io/unbound; for "
        "unbound placeholders give hold: Unbound",
    ),
    ({"objective": {}}, "spec.objective.instantStart: field required"),
    ({"objective": {"instantStart": "99%"}}, "spec.objective.instantStart: '99%' is text; write a number, 0.99"),
    ({"objective": {**OBJECTIVE, "prices": {"cpu": "1"}}}, "spec.objective.prices.cpu: '1' is text; write a number"),
    ({"objective": {"instantStart": 99}}, "spec.objective.instantStart: input should be less than or equal to 0.999"),
    ({"objective": {"instantStart": 0.4}}, "spec.objective.instantStart: input should be greater than or equal to 0.5"),
    ({"objective": {**OBJECTIVE, "maxCostPerHour": -1}}, "spec.objective.maxCostPerHour: input should be greater than"),
    ({"objective": {**OBJECTIVE, "prices": {"gpu": 1}}}, "input should be 'cpu' or 'memory', not 'gpu'"),
]


@run_for_each(("spec", "complaint"), WRONG, ids=[text[:60] for _, text in WRONG])
def test_every_complaint_names_the_fields_path_and_what_would_be_right(spec: Json, complaint: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        parsed(spec)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("file.yaml: spec")


@pytest.mark.parametrize(
    "amounts",
    [
        {"cpu": "2k", "memory": "0", "ephemeral-storage": 0},
        {"cpu": "0.5", "memory": "1Mi", "pods": 3, "hugepages-2Mi": "4Mi", "nvidia.com/gpu": 1},
        {"cpu": "1e3", "memory": 1 << 20, "attachable-volumes-aws-ebs": "25"},
    ],
)
def test_amounts_that_can_be_meant_are_taken(amounts: Json) -> None:
    assert parsed({"extraCapacity": {"ceiling": amounts}}).spec.extra_capacity.ceiling.keys() == amounts.keys()


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        parsed({"granularity": 0, "cover": {"coverage": 2}})
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("text", "expected a SlackPolicy object, found str"),
        (
            {"apiVersion": "v1", "kind": "Pod"},
            "expected apiVersion resource-slack.io/v1alpha1 and kind SlackPolicy, found 'v1', 'Pod'",
        ),
        ({"metadata": {}}, "metadata.name: is missing"),
        ({"metadata": None}, "metadata.name: is missing"),
        ({"metadata": {"name": "Web"}}, "metadata.name: 'Web' is not a DNS subdomain"),
        ({"metadata": {"name": "x" * 64}}, "at most 63 characters"),
        ({"spce": {}}, "spce: unknown field; did you mean spec?"),
    ],
)
def test_what_is_no_slack_policy_is_refused(document: object, complaint: str) -> None:
    base: Json = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": "web"}}
    with pytest.raises(InvalidPolicy, match=r"file\.yaml: ") as caught:
        parse_policy(base | document if isinstance(document, dict) else document, source="file.yaml")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2h0m5s", 7205), ("0s", 0)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert parse_duration(timedelta(seconds=1)) == timedelta(seconds=1)


@pytest.mark.parametrize("text", ["", "10", "-5m", "1.5h", "5m1h", "1d", None])
def test_other_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_placeholders_get_what_admission_policies_demand() -> None:
    given = {
        "labels": {"team": "platform", "app.kubernetes.io/name": "slack"},
        "annotations": {"corp.example/owner": "Platform <p@corp.example>"},
        "limits": "Requests",
        "imagePullSecrets": [{"name": "corp.registry-1"}],
        "securityContext": {
            "runAsUser": 1_000_680_000,
            "runAsGroup": 1000,
            "fsGroup": 2000,
            "supplementalGroups": [3000],
            "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/pause.json"},
            "appArmorProfile": {"type": "RuntimeDefault", "localhostProfile": ""},
        },
    }
    found = parsed({"placeholders": given}).spec.placeholders
    assert found.model_dump(by_alias=True, mode="json") == given
    assert parsed({}).spec.placeholders == Placeholders()
    assert Placeholders().limits == "None"


DEFAULTS = {
    "labels": {"team": "platform", "tier": "slack"},
    "annotations": {"owner": "platform"},
    "limits": "Requests",
    "imagePullSecrets": [{"name": "corp"}],
    "securityContext": {"runAsUser": 1000, "supplementalGroups": [3000]},
}


@pytest.mark.parametrize(
    ("own", "changed"),
    [
        ({}, {}),
        ({"labels": {"tier": "gpu", "cost": "1"}}, {"labels": {"team": "platform", "tier": "gpu", "cost": "1"}}),
        ({"annotations": {"owner": "ml"}}, {"annotations": {"owner": "ml"}}),
        ({"limits": "None"}, {"limits": "None"}),
        (
            {"imagePullSecrets": [{"name": "ml"}, {"name": "corp"}]},
            {"imagePullSecrets": [{"name": "corp"}, {"name": "ml"}]},
        ),
        (
            {"securityContext": {"runAsUser": 2000, "runAsGroup": 5}},
            {"securityContext": {"runAsUser": 2000, "runAsGroup": 5, "supplementalGroups": [3000]}},
        ),
        ({"securityContext": {"supplementalGroups": []}}, {"securityContext": {"runAsUser": 1000}}),
    ],
)
def test_what_a_policy_gives_placeholders_is_added_to_the_operators_and_wins(own: Json, changed: Json) -> None:
    found = parsed({"placeholders": own}).spec.placeholders.added_to(Placeholders.model_validate(DEFAULTS))
    assert found == Placeholders.model_validate(DEFAULTS | changed)


@run_for_each(
    "key",
    [
        LABEL_POLICY,
        LABEL_SHAPE,
        LABEL_HOLD,
        ANNOTATION_LATENCY,
        LABEL_MANAGED_BY,
        LABEL_POD_GROUP,
        "app.kubernetes.io/component",
        *LABELS_AGAINST_INJECTION,
    ],
)
def test_placeholders_keep_the_labels_that_are_ours(key: str) -> None:
    with pytest.raises(InvalidPolicy, match=r"spec\.placeholders: ") as raised:
        parsed({"placeholders": {"labels": {"team": "a", key: "x"}}})
    assert LABEL_TAKEN in str(raised.value)


@run_for_each(
    "key",
    [
        ANNOTATION_SAFE_TO_EVICT,
        ANNOTATION_SCALE_UP_DELAY,
        ANNOTATION_DELETION_COST,
        ANNOTATION_WHY_PENDING,
        "karpenter.sh/do-not-disrupt",
        "container.apparmor.security.beta.kubernetes.io/placeholder",
        *ANNOTATIONS_AGAINST_INJECTION,
    ],
)
def test_placeholders_keep_the_annotations_that_are_ours(key: str) -> None:
    with pytest.raises(InvalidPolicy, match=r"spec\.placeholders: ") as raised:
        parsed({"placeholders": {"annotations": {"team": "a", key: "x"}}})
    assert ANNOTATION_TAKEN in str(raised.value)


@run_for_each(
    ("given", "complaint"),
    [
        ({"annotations": {"bad key": "x"}}, "'bad key' is not a label key"),
        ({"annotations": {"a": "x" * 254}}, "253"),
        ({"limits": "Some"}, "spec.placeholders.limits"),
        ({"imagePullSecrets": [{"name": "A_b"}]}, NO_SECRET),
        ({"imagePullSecrets": [{"name": "a\n"}]}, NO_SECRET),
        ({"securityContext": {"runAsUser": 0}}, "spec.placeholders.securityContext.runAsUser"),
        ({"securityContext": {"runAsUser": "1000"}}, "write a whole number, 1000"),
        ({"securityContext": {"runAsGroup": 2**31}}, "spec.placeholders.securityContext.runAsGroup"),
        ({"securityContext": {"supplementalGroups": [0]}}, "spec.placeholders.securityContext.supplementalGroups[0]"),
        ({"securityContext": {"runAsNonRoot": False}}, "spec.placeholders.securityContext.runAsNonRoot: unknown field"),
        ({"securityContext": {"privileged": True}}, "spec.placeholders.securityContext.privileged: unknown field"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "securityContext.seccompProfile.type"),
        ({"securityContext": {"seccompProfile": {"type": "Localhost"}}}, LOCAL_PROFILE),
        ({"securityContext": {"appArmorProfile": {"localhostProfile": "x"}}}, LOCAL_PROFILE),
    ],
)
def test_what_placeholders_cannot_be_given_is_refused(given: Json, complaint: str) -> None:
    with pytest.raises(InvalidPolicy) as raised:
        parsed({"placeholders": given})
    assert complaint in str(raised.value)
