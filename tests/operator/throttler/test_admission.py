"""What the webhook says of a pod: gated, let in as it is with a warning, or refused in words that name the field."""

import base64
import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.harness.json_patch import patched
from slack.cluster.labels import API_VERSION
from slack.throttler.config import ThrottlePolicy, parse_throttle_policy
from slack.throttler.injection import DEPENDS_ON, ENABLED, GATE, PERMITS_IN, VARIABLE, Backend, GateOptions
from slack_operator.throttler.controller.admission import AdmissionRules, InvalidReview, Outcome, judged, read

Json = dict[str, Any]
OPTIONS = GateOptions(image="slack:1", agent_port=7472, agent_name="agent", authority="PEM")
RULES = AdmissionRules(backend=Backend.FILE, options=OPTIONS, left_out=frozenset({"kube-system", "ours"}))
BY_CONFIG_MAP = AdmissionRules(backend=Backend.CONFIGMAP, options=OPTIONS, left_out=RULES.left_out)


def a_review(pod: Any, **request: object) -> bytes:
    """Return what the API server sends."""
    asked = {
        "uid": "0a1b",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": pod,
        "dryRun": False,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}
    ).encode()


def a_pod(*names: str, **annotations: str) -> Json:
    containers = [{"name": name, "image": "a:1"} for name in names or ("web",)]
    return {"metadata": {"generateName": "web-", "annotations": annotations}, "spec": {"containers": containers}}


def said(pod: Any, rules: AdmissionRules = RULES, **request: object) -> tuple[Outcome, Json]:
    outcome, answer = judged(read(a_review(pod, **request)), rules)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Json = answer["response"]
    assert response["uid"] == "0a1b"
    return outcome, response


def operations(response: Json) -> list[Json]:
    found: list[Json] = json.loads(base64.b64decode(response["patch"]))
    return found


def test_a_pod_is_given_its_gate_and_asking_again_changes_nothing() -> None:
    outcome, response = said(a_pod("web", "log"))
    assert (outcome, response["allowed"], response["patchType"]) == (Outcome.GATED, True, "JSONPatch")
    after = patched(a_pod("web", "log"), operations(response))
    assert [entry["name"] for entry in after["spec"]["initContainers"]] == [GATE]
    outcome, response = said(after)
    assert (outcome, response) == (Outcome.AS_IT_WAS, {"uid": "0a1b", "allowed": True})


def test_a_new_gate_goes_by_the_shortest_time_of_the_policies_that_its_node_may_have() -> None:
    def policy(name: str, after: str, **selector: str) -> ThrottlePolicy:
        spec = {"failOpenAfter": after, "nodeSelector": selector}
        document = {"apiVersion": API_VERSION, "kind": "ThrottlePolicy", "metadata": {"name": name}, "spec": spec}
        return parse_throttle_policy(document, source=name)

    everywhere, batch, gpu = policy("all", "90s"), policy("batch", "9s", pool="batch"), policy("gpu", "5m", pool="gpu")
    cases: list[tuple[tuple[ThrottlePolicy, ...], Json | None, str]] = [
        ((), None, "60"),
        ((gpu,), {"pool": "web"}, "60"),
        ((everywhere,), None, "90"),
        ((everywhere, batch, gpu), None, "9"),
        ((everywhere, gpu), {"zone": "a"}, "90"),
        ((everywhere, batch, gpu), {"pool": "gpu"}, "300"),
        ((everywhere, batch, gpu), {"pool": "web"}, "90"),
    ]
    for policies, selector, after in cases:
        asked = a_pod()
        asked["spec"] |= {"nodeSelector": selector}
        outcome, response = said(asked, replace(RULES, policies=policies))
        assert outcome is Outcome.GATED
        gate = patched(asked, operations(response))["spec"]["initContainers"][0]
        told = {entry["name"]: entry.get("value") for entry in gate["env"]}
        assert told["THROTTLER_FAIL_OPEN_AFTER"] == after, (policies, selector)


def test_with_the_other_backend_a_pod_is_given_the_name_of_a_config_map_of_its_own() -> None:
    outcome, response = said(a_pod("web"), BY_CONFIG_MAP)
    assert outcome is Outcome.GATED
    after = patched(a_pod("web"), operations(response))
    assert after["metadata"]["annotations"][PERMITS_IN] == "permits-0a1b"
    assert "initContainers" not in after["spec"]


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (
            a_pod("a", "b", **{DEPENDS_ON: '{"a": ["b"], "b": ["a"]}'}),
            f"metadata.annotations[{DEPENDS_ON}]: a: depends",
        ),
        (a_pod("a", **{DEPENDS_ON: '{"a": ["mag"]}'}), f"metadata.annotations[{DEPENDS_ON}]: a: depends on 'mag'"),
        (a_pod("a", **{DEPENDS_ON: "a"}), f"metadata.annotations[{DEPENDS_ON}]: is no JSON object"),
        (a_pod("a", GATE), "spec.containers[1].name"),
    ],
)
def test_what_its_author_must_mend_is_refused_with_the_field(pod: Json, field: str) -> None:
    outcome, response = said(pod)
    assert (outcome, response["allowed"]) == (Outcome.REFUSED, False)
    assert response["status"]["message"].startswith(field)
    assert response["status"]["code"] == 422
    assert "patch" not in response


def test_a_variable_of_a_user_s_own_is_refused_by_both_backends() -> None:
    pod = a_pod("web")
    pod["spec"]["containers"][0]["env"] = [{"name": VARIABLE, "value": "1"}]
    for rules in (RULES, BY_CONFIG_MAP):
        outcome, response = said(pod, rules)
        assert outcome is Outcome.REFUSED
        assert "spec.containers[0].env[0].name" in response["status"]["message"]


@pytest.mark.parametrize(
    "request_",
    [
        {"namespace": "kube-system"},
        {"namespace": "ours"},
        {"operation": "UPDATE"},
        {"subResource": "eviction"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
    ],
)
def test_whatever_a_webhook_s_configuration_says_some_are_never_touched(request_: Json) -> None:
    assert said(a_pod("web"), **request_) == (Outcome.EXEMPT, {"uid": "0a1b", "allowed": True})


def test_who_asked_for_a_gate_and_can_have_none_is_told_why() -> None:
    pod = a_pod("web", **{ENABLED: "true"})
    pod["spec"]["hostNetwork"] = True
    outcome, response = said(pod)
    assert (outcome, response["allowed"]) == (Outcome.EXEMPT, True)
    assert "node's network" in response["warnings"][0]
    del pod["metadata"]["annotations"]
    assert "warnings" not in said(pod)[1], "its namespace asked, and it is one of many"


def test_where_the_api_server_would_refuse_the_pod_it_is_let_in_as_it_is() -> None:
    old = AdmissionRules(
        backend=Backend.FILE, options=OPTIONS, left_out=frozenset(), unsupported="Kubernetes v1.33.1 does not"
    )
    outcome, response = said(a_pod("web"), old)
    assert (outcome, response["allowed"]) == (Outcome.UNSUPPORTED, True)
    assert "patch" not in response
    assert response["warnings"] == ["start-up throttler: not gated: Kubernetes v1.33.1 does not"]


def test_what_is_no_pod_is_let_in_as_it_is_with_the_field() -> None:
    outcome, response = said({"spec": {"containers": ["web"]}})
    assert (outcome, response["allowed"]) == (Outcome.UNREADABLE, True)
    assert "spec.containers" in response["warnings"][0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        a_review(a_pod()).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        a_review(a_pod()).replace(b'"uid": "0a1b"', b'"uid": 1'),
    ],
)
def test_what_is_no_review_is_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(InvalidReview, match="AdmissionReview"):
        read(body)


_ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@given(pod=_ANY, more=st.fixed_dictionaries({}, optional={"kind": _ANY, "namespace": _ANY, "uid": _ANY}))
def test_whatever_is_asked_there_is_an_answer_or_an_error_of_ours(pod: Any, more: Json) -> None:
    with contextlib.suppress(InvalidReview):
        outcome, answer = judged(read(a_review(pod, **more)), RULES)
        assert answer["response"]["allowed"] is (outcome is not Outcome.REFUSED)
