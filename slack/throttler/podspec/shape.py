"""The shape of a pod's manifest, as far as the throttler reads one: what is no pod is told with the field.

The API server sends none that is malformed; others may.
"""

from typing import Any

import msgspec

from slack.errors import InvalidInput


class InvalidManifest(InvalidInput):
    """Something that is no pod; the text names the field."""


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Only what is read; everything may be absent or null."""


class _Entry(_Wire):
    name: str | None = None
    value: str | None = None
    value_from: dict[str, dict[str, Any] | None] | None = None


class _Port(_Wire):
    container_port: int | None = None


class _Resources(_Wire):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(_Wire):
    name: str | None = None
    env: list[_Entry] | None = None
    ports: list[_Port] | None = None
    resources: _Resources | None = None
    restart_policy: str | None = None


class _TokenSource(_Wire):
    audience: str | None = None


class _Source(_Wire):
    service_account_token: _TokenSource | None = None


class _Projected(_Wire):
    sources: list[_Source] | None = None


class _Volume(_Wire):
    name: str | None = None
    empty_dir: dict[str, Any] | None = None
    projected: _Projected | None = None


class _Os(_Wire):
    name: str | None = None


class _Expression(_Wire):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class _Term(_Wire):
    match_expressions: list[_Expression] | None = None


class _NodeSelector(_Wire):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(_Wire):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(_Wire):
    node_affinity: _NodeAffinity | None = None


class _Security(_Wire):
    run_as_user: int | None = None


class _Spec(_Wire):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    priority_class_name: str | None = None
    host_network: bool | None = None
    os: _Os | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    security_context: _Security | None = None
    resources: _Resources | None = None


class _Metadata(_Wire):
    name: str | None = None
    namespace: str | None = None
    annotations: dict[str, str] | None = None


class _Pod(_Wire):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


def check(pod: object) -> None:
    """Look at every field that is read.

    Raises:
        InvalidManifest: one is not of its type.
    """
    try:
        msgspec.convert(pod, _Pod)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        field = where.strip("`").removeprefix("$").removeprefix(".") or "the pod"
        raise InvalidManifest(f"{field}: {what[:1].lower()}{what[1:]}") from None
