"""Pods as the API server makes them with the throttler's webhook, and with its admission policy, of the chart.

The controller runs with the chart's arguments and rights. What both ways of injection give is held equal.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.api import ApiError, Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster import rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.json_patch import patched
from e2e.harness.objects import IMAGE, deployment, make_namespace, pods, wait_until
from e2e.harness.ports import LOOPBACK
from e2e.harness.product.gate_link import ConnectedLink
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.operator import CRDS
from e2e.harness.product.throttler import (
    AGENT_NAME,
    ENABLED,
    Agent,
    Controller,
    admitted,
    apply_policies,
    enable,
    is_injected,
    of_kind,
    rendered,
    wait_until_injected,
)
from slack.cluster.labels import API_VERSION
from slack.throttler.config import KIND
from slack.throttler.injection import DEPENDS_ON, FIRST_DOORBELL_PORT, GATE, NOT_GATED, GateOptions, patch

SHOP, OTHER = "throttled-shop", "other-shop"
WEBHOOK, POLICY = "Webhook", "AdmissionPolicy"
FOR_REPORTS = {
    ("nodes", "list"),
    ("nodes", "watch"),
    ("events", "create"),
    ("events", "patch"),
    ("authentication.k8s.io/tokenreviews", "create"),
    ("resource-slack.io/throttlepolicies/status", "patch"),
}
"""Rights that the reports of agents take: test_throttler_status.py sees them used."""


@dataclass
class Place:
    """A control plane whose pods are gated one way or the other."""

    cluster: Backend
    manifests: list[Json]
    injection: str
    controller: Controller | None
    mark: Any

    def admitted(self, manifest: Json) -> Json:
        """Return a pod as it would be made."""
        return admitted(self.cluster.api, manifest)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=[WEBHOOK, POLICY])
def place(
    request: pytest.FixtureRequest, backend: Backend, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("helm")
    manifests = rendered(folder, authority, f"--set=throttler.injection={request.param}")
    with cleaned(backend.api):
        enable(backend.api, SHOP)
        make_namespace(backend.api, OTHER)
        mark = backend.audit_mark()
        apply_policies(backend.api, manifests)  # with the webhook: of LimitRanges alone
        if request.param == WEBHOOK:
            with Controller(backend, manifests, authority) as controller:
                controller.register(manifests, SHOP)
                yield Place(backend, manifests, WEBHOOK, controller, mark)
            return
        make_namespace(backend.api, NAMESPACE)
        wait_until_injected(backend.api, SHOP)
        yield Place(backend, manifests, POLICY, None, mark)


def container(name: str, **fields: object) -> Json:
    return {"name": name, "image": IMAGE, **fields}


def a_pod(
    *containers: Json, namespace: str = SHOP, name: str = "web", annotations: Json | None = None, **spec: object
) -> Json:
    metadata: Json = {"name": name, "namespace": namespace}
    if annotations:
        metadata["annotations"] = annotations
    body = {"containers": list(containers) or [container("main")]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def nodes_whose_system(operator: str, system: str) -> Json:
    """Return an affinity to nodes by their operating system."""
    term = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": [system]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def gates(found: Json) -> list[Json]:
    return [entry for entry in found["spec"].get("initContainers", ()) if entry["name"] == GATE]


LIMITS = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}
PODS: dict[str, Json] = {
    "best effort": a_pod(container("a"), container("b", env=[{"name": "LEVEL", "value": "1"}])),
    "burstable": a_pod(container("a", resources={"requests": {"cpu": "100m"}}), container("b")),
    "guaranteed": a_pod(container("a", resources=LIMITS), container("b", resources=LIMITS)),
    "almost": a_pod(container("a", resources=LIMITS), container("b", resources={"limits": {"cpu": "1"}})),
    "limited": a_pod(container("a", resources={"requests": {"cpu": "1m"}, "limits": {"cpu": "1", "memory": "1Gi"}})),
    "limited in memory": a_pod(
        container("a", resources={"limits": {"memory": "1Gi"}}), container("b", resources=LIMITS)
    ),
    "device alone": a_pod(container("a", resources={"limits": {"example.com/device": "1"}})),
    "nothing": a_pod(container("a", resources={"requests": {"cpu": "0"}, "limits": {"cpu": "0", "memory": "0"}})),
    "disk": a_pod(
        container("a", resources={"requests": {"cpu": "1m"}, "limits": {"ephemeral-storage": "1Gi"}}),
        container("b", resources={"requests": {"ephemeral-storage": "1Gi"}}),
    ),
    "guaranteed with a disk": a_pod(
        container("a", resources={"limits": LIMITS["limits"] | {"ephemeral-storage": "1Gi"}})
    ),
    "of a pod": a_pod(container("a"), resources={"requests": {"cpu": "1"}}),
    "init": a_pod(container("a"), initContainers=[container("first"), container("side", restartPolicy="Always")]),
    "root": a_pod(container("a"), securityContext={"runAsUser": 0}),
    "ports": a_pod(container("a", ports=[{"containerPort": 7473}]), container("b", ports=[{"containerPort": 7474}])),
    "volumes": a_pod(container("a"), volumes=[{"name": "data", "emptyDir": {}}]),
    "opted in by itself": a_pod(container("a"), namespace=OTHER, annotations={ENABLED: "true"}),
    "ordered": a_pod(container("a"), container("b"), annotations={DEPENDS_ON: '{"b": ["a"]}'}),
}


@pytest.mark.parametrize("kind", PODS)
def test_a_pod_is_given_what_the_core_says_whichever_way_it_is_injected(
    place: Place, authority: Authority, kind: str
) -> None:
    (controller,) = of_kind(place.manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    told = dict(flag.removeprefix("--").partition("=")[::2] for flag in controller["args"])
    options = GateOptions(
        image=told["gate-image"],
        agent_port=int(told["agent-port"]),
        agent_name=told["agent-name"],
        authority=authority.certificate_path.read_text().strip(),
        image_pull_policy=told["gate-image-pull-policy"],
    )
    manifest = copy.deepcopy(PODS[kind])
    found, wanted = place.admitted(manifest), patched(manifest, patch(manifest, options))
    # what the API server makes of it by itself, when it needs no injection any more
    wanted = place.admitted(wanted)
    assert is_injected(found)
    for each in (found, wanted):
        for entry in gates(each):
            entry["env"].sort(key=lambda variable: str(variable["name"]))
        each["spec"]["volumes"] = sorted(
            (volume for volume in each["spec"]["volumes"] if not volume["name"].startswith("kube-api-access")),
            key=lambda volume: str(volume["name"]),
        )
        for entry in [*each["spec"]["containers"], *each["spec"]["initContainers"]]:
            entry["volumeMounts"] = [
                mount for mount in entry["volumeMounts"] if not mount["name"].startswith("kube-api-access")
            ]
    assert found["spec"] == wanted["spec"]


def test_pods_of_a_template_with_the_annotation_are_gated_wherever_they_are(place: Place) -> None:
    manifest = deployment("annotated", 1, namespace=OTHER)
    manifest["spec"]["template"]["metadata"].setdefault("annotations", {})[ENABLED] = "true"
    place.cluster.api.create(manifest)
    (made,) = wait_until(lambda: pods(place.cluster.api, OTHER), 30, "the Deployment's pod") or []
    assert len(gates(made)) == 1
    assert is_injected(made)


@pytest.mark.parametrize(
    "manifest",
    [
        a_pod(namespace=OTHER),
        a_pod(annotations={ENABLED: "false"}),
        a_pod(namespace=OTHER, annotations={ENABLED: "True "}),
        a_pod(hostNetwork=True),
        a_pod(nodeSelector={"kubernetes.io/os": "windows"}),
        a_pod(affinity=nodes_whose_system("In", "windows")),
        a_pod(affinity=nodes_whose_system("NotIn", "linux")),
        a_pod(priorityClassName="system-node-critical", namespace=SHOP),
        a_pod(namespace="kube-system", annotations={ENABLED: "true"}),
        a_pod(namespace=NAMESPACE, annotations={ENABLED: "true"}),
    ],
    ids=[
        "not asked",
        "asked not to",
        "misspelt",
        "own network",
        "windows",
        "windows nodes",
        "not linux",
        "critical",
        "kube-system",
        "ours",
    ],
)
def test_who_did_not_ask_and_who_is_never_gated_stays_as_it_is(place: Place, manifest: Json) -> None:
    found = place.admitted(manifest)
    assert not is_injected(found)
    assert gates(found) == []


def test_labelled_or_not_the_namespaces_that_must_run_are_left_out(place: Place) -> None:
    api = place.cluster.api
    for namespace in ("kube-system", NAMESPACE):
        api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {ENABLED: "true"}}})
        try:
            assert not is_injected(place.admitted(a_pod(namespace=namespace)))
        finally:
            api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {ENABLED: None}}})


def test_a_gated_pod_is_admitted_where_pod_security_is_restricted(place: Place) -> None:
    api = place.cluster.api
    level = "pod-security.kubernetes.io/enforce"
    api.patch(f"/api/v1/namespaces/{SHOP}", {"metadata": {"labels": {level: "restricted"}}})
    try:
        assert is_injected(place.admitted(a_pod(container("main", securityContext=STRICT))))
        with pytest.raises(ApiError, match="restricted"):
            place.admitted(a_pod())
    finally:
        api.patch(f"/api/v1/namespaces/{SHOP}", {"metadata": {"labels": {level: None}}})


STRICT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
FITS = {"requests": {"cpu": "300m", "memory": "128Mi"}, "limits": {"cpu": "600m", "memory": "256Mi"}}


@dataclass
class Strict:
    """A namespace for gated pods with rules of its own."""

    place: Place
    namespace: str

    def have(self, kind: str, spec: Json) -> None:
        """Make a rule, and wait until it is in force."""
        metadata = {"name": "rule", "namespace": self.namespace}
        self.place.cluster.api.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})

    def admitted(self, *resources: Json) -> Json:
        """Return a pod with a container for each of these resources, as it would be made."""
        made = [
            container(f"c{number}", resources=each, securityContext=STRICT) for number, each in enumerate(resources)
        ]
        return self.place.admitted(a_pod(*made, namespace=self.namespace))

    def wait_refused(self, why: str, *resources: Json) -> None:
        """Wait until the rule is in force for pods without a gate."""

        def refused() -> bool:
            made = [
                container(f"c{number}", resources=each, securityContext=STRICT) for number, each in enumerate(resources)
            ]
            try:
                self.place.admitted(a_pod(*made, namespace=self.namespace, annotations={ENABLED: "false"}))
            except ApiError as error:
                return why in str(error)
            return False

        wait_until(refused, 30, f"pods to be refused: {why}")


@pytest.fixture
def strict(place: Place, request: pytest.FixtureRequest) -> Iterator[Strict]:
    api, name = place.cluster.api, f"strict-{abs(hash(request.node.name)) % 10**8}"
    enable(api, name)
    api.patch(
        f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    try:
        yield Strict(place, name)
    finally:
        for plural in ("resourcequotas", "limitranges"):
            if api.find(f"/api/v1/namespaces/{name}/{plural}/rule") is not None:
                api.delete(f"/api/v1/namespaces/{name}/{plural}/rule")


@pytest.mark.parametrize("limits", [{"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}], ids=["both", "memory"])
def test_a_gated_pod_is_admitted_where_a_quota_is_on_limits(strict: Strict, limits: Json) -> None:
    hard = {f"limits.{kind}": amount for kind, amount in {"cpu": "4", "memory": "4Gi"}.items() if kind in limits}
    requests = {"requests.cpu": "4", "requests.memory": "4Gi"}
    strict.have("ResourceQuota", {"hard": hard | requests})
    strict.wait_refused("must specify", {"requests": {"cpu": "1m", "memory": "1Mi"}})
    found = strict.admitted({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": limits})
    (gate,) = gates(found)
    assert set(gate["resources"]["limits"]) == set(limits)


def test_a_gated_pod_is_admitted_within_a_limit_range(strict: Strict) -> None:
    """Above its least, below its greatest, within its ratio, and with its defaults."""
    strict.have(
        "LimitRange",
        {
            "limits": [
                {
                    "type": "Container",
                    "min": {"cpu": "200m", "memory": "100Mi"},
                    "max": {"cpu": "2", "memory": "1Gi"},
                    "maxLimitRequestRatio": {"cpu": "2"},
                }
            ]
        },
    )
    strict.wait_refused("minimum cpu usage", {"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}})
    for resources in (FITS, {"requests": FITS["limits"], "limits": FITS["limits"]}):
        (gate,) = gates(strict.admitted(resources))
        assert gate["resources"]["requests"] == {"cpu": "200m", "memory": "100Mi"}
        assert gate["resources"]["limits"] == gate["resources"]["requests"]


def test_a_gated_pod_is_admitted_where_a_limit_range_gives_limits_and_bounds_their_ratio(strict: Strict) -> None:
    strict.have(
        "LimitRange",
        {
            "limits": [
                {
                    "type": "Container",
                    "min": {"memory": "48Mi"},
                    "default": {"cpu": "500m", "memory": "256Mi"},
                    "defaultRequest": {"cpu": "250m", "memory": "128Mi"},
                    "maxLimitRequestRatio": {"cpu": "4", "memory": "4"},
                }
            ]
        },
    )
    strict.wait_refused("minimum memory usage", {"requests": {"memory": "1Mi"}, "limits": {"memory": "1Mi"}})
    assert len(gates(strict.admitted({}))) == 1
    assert len(gates(strict.admitted({"requests": {"cpu": "200m", "memory": "100Mi"}}))) == 1


MANY = {"example.com/device": "4", "ephemeral-storage": "20Gi"}


def test_a_gate_takes_none_of_what_defaults_of_a_limit_range_give_and_it_has_no_use_for(strict: Strict) -> None:
    """A container that says nothing is given the greatest amount: devices, and a disk."""
    strict.have("LimitRange", {"limits": [{"type": "Container", "max": MANY}]})
    few = {"example.com/device": "1", "ephemeral-storage": "1Gi"}
    strict.wait_refused("maximum", {"limits": {"example.com/device": "5", "ephemeral-storage": "1Gi"}})
    (gate,) = gates(strict.admitted({"requests": {"cpu": "1m"}, "limits": few}))
    assert gate["resources"]["limits"] == {"example.com/device": "0", "ephemeral-storage": "64Mi"}
    assert gate["resources"]["requests"]["ephemeral-storage"] == "64Mi"


def test_a_gate_keeps_the_ratio_of_a_whole_pod(strict: Strict) -> None:
    strict.have("LimitRange", {"limits": [{"type": "Pod", "maxLimitRequestRatio": {"cpu": "2", "memory": "2"}}]})
    strict.wait_refused("ratio", {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": FITS["limits"]})
    (gate,) = gates(strict.admitted(FITS))
    assert gate["resources"]["requests"] == {"cpu": "50m", "memory": "32Mi"}


def test_a_pod_that_leaves_its_gate_no_space_in_a_limit_range_starts_without_it(strict: Strict) -> None:
    strict.have("LimitRange", {"limits": [{"type": "Pod", "max": FITS["limits"]}]})
    strict.wait_refused("maximum", {"requests": FITS["requests"], "limits": {"cpu": "2", "memory": "1Gi"}})
    for resources in (FITS, {"requests": FITS["limits"], "limits": FITS["limits"]}):
        found = strict.admitted(resources)
        assert gates(found) == []
        assert not is_injected(found)
        assert not any(volume["name"].startswith("throttler") for volume in found["spec"]["volumes"])
        assert found["metadata"]["annotations"][ENABLED] == "false"
        assert found["metadata"]["annotations"][NOT_GATED].startswith("LimitRange rule: ")
    half = {"requests": FITS["requests"], "limits": {"cpu": "300m", "memory": "128Mi"}}
    assert len(gates(strict.admitted(half))) == 1


def test_a_gate_asks_nothing_within_the_resources_of_a_whole_pod(strict: Strict) -> None:
    """Its pod's containers, and what a LimitRange gives them, may be all that the pod has."""
    usual = {"cpu": "250m", "memory": "128Mi"}
    strict.have("LimitRange", {"limits": [{"type": "Container", "default": usual, "max": FITS["limits"]}]})
    strict.wait_refused("maximum", {"requests": FITS["requests"], "limits": {"cpu": "2", "memory": "1Gi"}})
    only = container("c0", securityContext=STRICT)
    found = strict.place.admitted(a_pod(only, namespace=strict.namespace, resources={"requests": usual}))
    (gate,) = gates(found)
    assert gate["resources"]["requests"] == {"cpu": "0", "memory": "0"}


def test_a_gate_that_must_ask_for_more_than_a_whole_pod_has_left_is_taken_out_again(strict: Strict) -> None:
    least = {"cpu": "100m"}
    strict.have("LimitRange", {"limits": [{"type": "Container", "min": least}]})
    strict.wait_refused("minimum", {"requests": {"cpu": "1m"}})
    only = container("c0", securityContext=STRICT, resources={"requests": {"cpu": "200m"}})
    found = strict.place.admitted(a_pod(only, namespace=strict.namespace, resources={"requests": {"cpu": "250m"}}))
    assert gates(found) == []
    assert not is_injected(found)


def test_a_pod_that_names_the_first_ten_ports_is_admitted(place: Place) -> None:
    """The webhook finds its gate another one; the policy leaves the pod as it is."""
    ports = [{"containerPort": port} for port in range(FIRST_DOORBELL_PORT, FIRST_DOORBELL_PORT + 10)]
    found = place.admitted(a_pod(container("main", ports=ports)))
    assert is_injected(found) == (place.injection == WEBHOOK) == (len(gates(found)) == 1)


def test_a_gated_pod_is_admitted_where_an_admission_policy_requires_limits(strict: Strict) -> None:
    api = strict.place.cluster.api
    everyone = "object.spec.containers + object.spec.?initContainers.orValue([])"
    limited = f"({everyone}).all(c, ['cpu', 'memory'].all(k, c.?resources.?limits[?k].hasValue()))"
    metadata = {"name": strict.namespace}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    only = {"matchLabels": {"kubernetes.io/metadata.name": strict.namespace}}
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": limited}]}
    binding = {
        "policyName": strict.namespace,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": only},
    }
    made = [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding))
    ]
    for item in made:
        api.apply(item)
    try:
        strict.wait_refused("failed expression", {"requests": {"cpu": "1m"}})
        assert len(gates(strict.admitted(FITS))) == 1
    finally:
        for item in made:
            api.delete(api.path_of(item))


def test_dependencies_that_cannot_be_kept_are_refused_by_the_webhook_and_held_by_the_policy(place: Place) -> None:
    manifest = a_pod(container("a"), container("b"), annotations={DEPENDS_ON: '{"a": ["b"], "b": ["a"]}'})
    if place.injection == POLICY:
        assert is_injected(place.admitted(manifest))
        return
    with pytest.raises(ApiError) as refused:
        place.admitted(manifest)
    assert refused.value.status == 422
    assert f"metadata.annotations[{DEPENDS_ON}]: a: depends on itself: a -> b -> a" in str(refused.value)


def test_a_variable_of_a_users_own_under_our_name_is_refused_by_name(place: Place) -> None:
    manifest = a_pod(container("main", env=[{"name": "RESOURCE_SLACK_START_PERMIT", "value": "1"}]))
    with pytest.raises(ApiError, match=r"spec\.containers\[0\]\.env.*RESOURCE_SLACK_START_PERMIT.*own; leave it out"):
        place.admitted(manifest)


def test_a_container_that_comes_after_the_gate_is_gated_too(place: Place) -> None:
    """As another webhook adds it, and the API server then asks again."""
    first = place.admitted(a_pod(container("main")))
    again = a_pod(*first["spec"]["containers"], container("late"))
    again["spec"] |= {name: first["spec"][name] for name in ("volumes", "initContainers")}
    found = place.admitted(again)
    assert is_injected(found)
    (gate,) = gates(found)
    assert next(entry["value"] for entry in gate["env"] if entry["name"] == "THROTTLER_CONTAINERS") == "main,late"


def test_what_a_webhook_with_an_older_api_has_lost_of_ours_is_put_back(place: Place) -> None:
    """As the API server asks again after such a webhook: without restartPolicy the gate would have to end."""
    first = place.admitted(a_pod(container("main"), container("b", env=[{"name": "LEVEL", "value": "1"}])))
    again = a_pod(*copy.deepcopy(first["spec"]["containers"]))
    again["spec"] |= {name: copy.deepcopy(first["spec"][name]) for name in ("volumes", "initContainers")}
    del again["spec"]["initContainers"][0]["restartPolicy"]
    for entry in (entry for each in again["spec"]["containers"] for entry in each["env"]):
        entry.pop("valueFrom", None)
    found = place.admitted(again)
    assert is_injected(found)
    assert gates(found) == gates(first)
    assert [each["env"] for each in found["spec"]["containers"]] == [
        each["env"] for each in first["spec"]["containers"]
    ]


def test_volumes_of_a_users_own_under_our_names_are_refused_by_name(place: Place) -> None:
    for name in ("throttler-permits", "throttler-token"):
        with pytest.raises(ApiError, match=rf"spec\.volumes\[\d\]\.name: .*{name}"):
            place.admitted(a_pod(volumes=[{"name": name, "configMap": {"name": "mine"}}]))


def test_the_controller_uses_the_rights_of_the_chart_and_asks_for_no_others(place: Place) -> None:
    if place.controller is None:
        pytest.skip("the API server does it by itself")
    backend, user = place.cluster, place.controller.identity.user
    rights = rbac.granted(place.controller.roles)
    unused = {("pods", "list"), ("resource-slack.io/throttlepolicies", "watch")}
    unused |= FOR_REPORTS

    def left() -> set[str]:
        seen = rbac.used(rights, backend.audit_entries(user=user, since=place.mark))
        return {str(right) for right in rights - seen if (right.resource, right.verb) not in unused}

    wait_until(lambda: not left(), 60, "its rights to be used", left)
    asked = backend.audit_entries(user=user, since=place.mark)
    assert {str(right) for right in rbac.refused(rights, asked)} == set()


def test_a_new_gate_goes_by_the_policy_if_a_webhook_injects_it(place: Place) -> None:
    """Its agent may be away, and then nobody else could tell it; the API server alone knows no policies."""
    install_crds(place.cluster.api, CRDS)
    place.cluster.api.apply(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "default"}, "spec": {"failOpenAfter": "9s"}}
    )

    def told() -> str:
        gate = gates(place.admitted(a_pod()))[0]
        return str({entry["name"]: entry.get("value") for entry in gate["env"]}["THROTTLER_FAIL_OPEN_AFTER"])

    if place.controller is None:
        assert told() == "60"
    else:
        wait_until(lambda: told() == "9", 90, "the webhook to know the policy", told)


def test_while_nobody_answers_pods_are_made_as_they_are(place: Place) -> None:
    """The last one: the controller is gone after it."""
    if place.controller is None:
        pytest.skip("the API server does it by itself")
    page = place.controller.page("/metrics")[1]
    assert 'slack_throttler_admissions_total{outcome="Refused"}' in page
    place.controller.program.stop()
    found = place.admitted(a_pod())
    assert not is_injected(found)


def test_the_agent_uses_the_rights_of_the_chart_and_asks_for_no_others(
    backend: Backend, authority: Authority, tmp_path: Path
) -> None:
    """It is sent a token that is none, which the API server is asked about; Events need a kubelet."""
    manifests = rendered(tmp_path / "helm", authority)
    unused = {("events", "create"), ("events", "patch")}
    unused |= {(plural, "list") for plural in ("pods", "nodes", "resource-slack.io/throttlepolicies")}
    with cleaned(backend.api):
        install_crds(backend.api, CRDS)
        mark = backend.audit_mark()
        with Agent(backend, manifests, authority, tmp_path) as agent:
            token = tmp_path / "token"
            token.write_text("no-token-of-this-cluster")
            pem = authority.certificate_path.read_text()
            link = ConnectedLink(LOOPBACK, agent.port, AGENT_NAME, pem, str(token))
            told = wait_until(link.receive, 30, "an answer to the token") or []
            assert [message["type"] for message in told] == ["refused"]
            link.close()
        rights = rbac.granted(agent.roles)

        def left() -> set[str]:
            seen = rbac.used(rights, backend.audit_entries(user=agent.identity.user, since=mark))
            return {str(right) for right in rights - seen if (right.resource, right.verb) not in unused}

        wait_until(lambda: not left(), 60, "its rights to be used", left)
        asked = backend.audit_entries(user=agent.identity.user, since=mark)
        assert {str(right) for right in rbac.refused(rights, asked)} == set()


def test_an_api_server_without_such_variables_makes_pods_as_they_are(tmp_path: Path, authority: Authority) -> None:
    """As before Kubernetes 1.35: a pod with a variable from a file would be refused."""
    manifests = rendered(tmp_path / "helm", authority)
    options = Options(apiserver_flags=["--feature-gates=EnvFiles=false"])
    with ControlPlane(tmp_path / "cluster", options) as cluster:
        enable(cluster.api, SHOP)
        with Controller(cluster, manifests, authority) as controller:
            assert "slack_throttler_unsupported 1.0" in controller.page("/metrics")[1]
            controller.apply(manifests)
            wait_until(lambda: place_is_asked(cluster, controller), 30, "the API server to ask")


def place_is_asked(cluster: ControlPlane, controller: Controller) -> bool:
    assert not is_injected(admitted(cluster.api, a_pod()))
    return 'slack_throttler_admissions_total{outcome="Unsupported"} 0.0' not in controller.page("/metrics")[1]
