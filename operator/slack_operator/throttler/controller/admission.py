"""An AdmissionReview in, an AdmissionReview out: what the webhook says to a pod that is about to be made.

A pod that cannot be gated is let in as it is, with a warning: it then starts as it would without us. Refused is what
its author must mend, dependencies that cannot be kept or a name of ours that is taken, in words that name the field.
Our own namespace and `kube-system` are left out here too, whatever a webhook's configuration says.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from slack.errors import InvalidInput
from slack.throttler.config import ThrottlePolicy, first_fail_open_after
from slack.throttler.config_maps import name_for
from slack.throttler.graph import InvalidGraph
from slack.throttler.injection import (
    DEPENDS_ON,
    ENABLED,
    Backend,
    GateOptions,
    NameTaken,
    exempt,
    patch,
    patch_by_config_map,
)
from slack.throttler.podspec.shape import InvalidManifest

REVIEW_KIND: Final = "AdmissionReview"
REVIEW_VERSION: Final = "admission.k8s.io/v1"
NEVER: Final = frozenset({"kube-system"})
"""Namespaces without which no controller could run that lets others start."""
_UNPROCESSABLE = 422
_MOST_TEXT = 1024
MAX_VALUES: Final = 500_000
"""Of one review, counted by what comes before values; the largest pod that etcd takes has a tenth of that."""
_BEFORE_VALUES: Final = (b",", b"[", b"{")
Json = dict[str, Any]


class InvalidReview(InvalidInput):
    """Something that is no AdmissionReview; the text names the field."""


class Outcome(StrEnum):
    """What became of a pod."""

    GATED = "Gated"
    AS_IT_WAS = "AsItWas"
    EXEMPT = "Exempt"
    REFUSED = "Refused"
    UNSUPPORTED = "Unsupported"
    UNREADABLE = "Unreadable"


class _Kind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, rename="camel"):
    """What the API server asks; only what is read."""

    uid: str
    kind: _Kind
    operation: str = ""
    sub_resource: str | None = None
    namespace: str | None = None
    object: Any = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRules:
    """By what pods are judged."""

    backend: Backend
    options: GateOptions
    """What gates are told; nothing of it is used with the other backend."""
    policies: tuple[ThrottlePolicy, ...] = ()
    """All of the cluster: a gate goes by one's failOpenAfter until its agent has told it the node's."""
    left_out: frozenset[str]
    """Namespaces."""
    unsupported: str | None = None
    """Why no pod can be gated by this API server."""


_DECODER = msgspec.json.Decoder(_Review)


def read(body: bytes) -> AdmissionRequest:
    """Read a review.

    Raises:
        InvalidReview: it is none.
    """
    values = sum(map(body.count, _BEFORE_VALUES))
    if values > MAX_VALUES:  # a body of nothing but [] takes twenty times its size
        raise InvalidReview(f"no {REVIEW_KIND} of {REVIEW_VERSION}: it has more than {MAX_VALUES} values")
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReview(f"no {REVIEW_KIND} of {REVIEW_VERSION}: {error}") from None
    if review.kind != REVIEW_KIND or review.api_version != REVIEW_VERSION:
        raise InvalidReview(f"no {REVIEW_KIND} of {REVIEW_VERSION}: {review.kind} of {review.api_version}"[:_MOST_TEXT])
    return review.request


def judged(request: AdmissionRequest, rules: AdmissionRules) -> tuple[Outcome, Json]:
    """Return what becomes of a pod, and the review to answer with."""
    if not _is_new_pod(request) or request.namespace in rules.left_out:
        return Outcome.EXEMPT, _answer(request)
    pod = request.object
    try:
        why = exempt(pod)
        if why is not None:
            return Outcome.EXEMPT, _answer(request, warning=f"not gated: {why}" if _wanted(pod) else None)
        if rules.unsupported is not None:
            return Outcome.UNSUPPORTED, _answer(request, warning=f"not gated: {rules.unsupported}")
        if rules.backend is Backend.CONFIGMAP:
            operations = patch_by_config_map(pod, name_for(request.uid))
        else:
            operations = patch(pod, _options(pod, rules))
    except InvalidManifest as error:
        return Outcome.UNREADABLE, _answer(request, warning=f"not gated: {error}")
    except InvalidGraph as error:
        problems = (f"metadata.annotations[{DEPENDS_ON}]: {problem}" for problem in error.problems)
        return Outcome.REFUSED, _refusal(request, "; ".join(problems))
    except NameTaken as error:
        return Outcome.REFUSED, _refusal(request, str(error))
    return (Outcome.GATED if operations else Outcome.AS_IT_WAS), _answer(request, operations)


def _options(pod: Mapping[str, Any], rules: AdmissionRules) -> GateOptions:
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    after = first_fail_open_after(rules.policies, selector)
    return rules.options if after is None else replace(rules.options, fail_open_after_seconds=after.total_seconds())


def _is_new_pod(request: AdmissionRequest) -> bool:
    kind = request.kind
    return request.operation == "CREATE" and not request.sub_resource and (kind.group, kind.kind) == ("", "Pod")


def _wanted(pod: Mapping[str, Any]) -> bool:
    """Whether its author asked for a gate by name, and may wonder."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(ENABLED, "").lower() == "true")


def _answer(request: AdmissionRequest, operations: list[Json] | None = None, *, warning: str | None = None) -> Json:
    response: Json = {"uid": request.uid, "allowed": True}
    if operations:
        text = base64.b64encode(json.dumps(operations, separators=(",", ":")).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": text}
    if warning:
        response["warnings"] = [f"start-up throttler: {warning}"[:_MOST_TEXT]]
    return {"apiVersion": REVIEW_VERSION, "kind": REVIEW_KIND, "response": response}


def _refusal(request: AdmissionRequest, why: str) -> Json:
    status = {"code": _UNPROCESSABLE, "reason": "Invalid", "message": why[:_MOST_TEXT]}
    response = {"uid": request.uid, "allowed": False, "status": status}
    return {"apiVersion": REVIEW_VERSION, "kind": REVIEW_KIND, "response": response}
