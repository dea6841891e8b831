"""The kind CapacityBuffer for suites: a small CRD of our own writing, manifests, and what becomes of a buffer.

Autoscalers ship the CRD. This one has the fields, the defaults, the rules and the columns that upstream documents for
v1beta1, as far as a server or a user can tell.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.harness.api import Api, Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import wait_until
from e2e.harness.product.helm import Helm
from e2e.harness.product.operator import Operator, install

GROUP = "autoscaling.x-k8s.io"
API_VERSION = f"{GROUP}/v1beta1"
CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capacitybuffers.{GROUP}"
OWN_STRATEGY = "buffer.resource-slack.io/placeholder-pods"

FITS, WAITS = "True FitsExistingCapacity", "False RequiresNewCapacity"
"""Of a buffer's condition Provisioning, as `buffer_reasons` returns it."""


@contextmanager
def serving(cluster: Backend, *flags: str, serve: str = "Unserved", name: str = "operator") -> Iterator[Operator]:
    """Run an operator that serves, with the rights that the chart gives it then."""
    manifests = Helm(cluster.run_folder / "helm").template("--set", f"capacityBuffers.serve={serve}")
    identity = install(cluster, manifests)
    with Operator(cluster, f"--capacity-buffers={serve}", *flags, identity=identity, name=name) as operator:
        operator.wait_until_ready()
        yield operator


def _path(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/capacitybuffers"


def crd(*versions: str, status_fields: tuple[str, ...] = ()) -> Json:
    """Return the CRD.

    Args:
        versions: that it serves; the first is stored. v1beta1 where none is named.
        status_fields: further integer fields of the status.
    """
    name, quantity = {"type": "string", "minLength": 1}, {"x-kubernetes-int-or-string": True}
    reference = {"type": "object", "required": ["name"], "properties": {"name": name}}
    count = {"type": "integer", "format": "int32", "minimum": 0}
    text, integer = {"type": "string"}, {"type": "integer"}
    scalable = {"apiGroup": text, "kind": name, "name": name}
    condition = {
        key: {"type": "integer" if key == "observedGeneration" else "string"}
        for key in ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")
    }
    spec = {
        "type": "object",
        "properties": {
            "provisioningStrategy": {"type": "string", "default": "buffer.x-k8s.io/active-capacity"},
            "podTemplateRef": reference,
            "scalableRef": {"type": "object", "required": ["kind", "name"], "properties": scalable},
            "replicas": count,
            "percentage": count,
            "limits": {"type": "object", "additionalProperties": quantity},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)"},
            {"rule": "!(has(self.podTemplateRef) && has(self.scalableRef))"},
        ],
    }
    status: Json = {
        "type": "object",
        "properties": {
            "podTemplateRef": reference,
            "podTemplateGeneration": integer,
            "replicas": integer,
            "provisioningStrategy": text,
            "conditions": {
                "type": "array",
                "items": {"type": "object", "required": ["type", "status"], "properties": condition},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            **dict.fromkeys(status_fields, integer),
        },
    }
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
    served = versions or ("v1beta1",)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"capacitybuffers.{GROUP}",
            # The API server asks for it of groups of the community.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler/pull/8151"},
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": "CapacityBuffer",
                "listKind": "CapacityBufferList",
                "plural": "capacitybuffers",
                "singular": "capacitybuffer",
                "shortNames": ["cb"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == served[0],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
                for version in served
            ],
        },
    }


def install_kind(api: Api, *versions: str, status_fields: tuple[str, ...] = ()) -> None:
    """Install the CRD and wait until it is served."""
    api.apply(crd(*versions, status_fields=status_fields))
    version = (versions or ("v1beta1",))[0]
    wait_until(lambda: api.find(f"/apis/{GROUP}/{version}/capacitybuffers"), 30, "the kind to be served")


def pod_template(name: str, namespace: str = "default", cpu: str = "1", memory: str = "1Gi") -> Json:
    """Return a PodTemplate of one container."""
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    containers = [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}]
    metadata = {"name": name, "namespace": namespace}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def capacity_buffer(name: str, namespace: str = "default", **spec: Any) -> Json:
    """Return a buffer."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "CapacityBuffer", "metadata": metadata, "spec": spec}


def buffer_status(api: Api, name: str, namespace: str = "default") -> Json:
    """Return a buffer's status; {} while it has none."""
    found: Json = (api.find(f"{_path(namespace)}/{name}") or {}).get("status") or {}
    return found


def buffer_reasons(api: Api, name: str, namespace: str = "default") -> dict[str, str]:
    """Return by type `Status Reason` of a buffer's conditions."""
    conditions = buffer_status(api, name, namespace).get("conditions", ())
    return {each["type"]: f"{each['status']} {each['reason']}" for each in conditions}


def wait_for_provisioning(
    api: Api, name: str, wanted: str, seconds: float = 60.0, namespace: str = "default"
) -> dict[str, Any]:
    """Wait until `Provisioning` is `Status Reason`; return the status."""

    def said() -> Json | None:
        return status() if buffer_reasons(api, name, namespace).get("Provisioning") == wanted else None

    def status() -> Json:
        return buffer_status(api, name, namespace)

    return wait_until(said, seconds, f"Provisioning of {name} to be {wanted}", state=status) or {}


def delete_buffer(api: Api, name: str, namespace: str = "default") -> None:
    """Delete a buffer."""
    api.delete(f"{_path(namespace)}/{name}")


def change_buffer(api: Api, name: str, namespace: str = "default", **spec: Any) -> None:
    """Change fields of a buffer's spec."""
    api.patch(f"{_path(namespace)}/{name}", {"spec": spec})
