"""SlackScale: the `/scale` of a SlackPolicy within a namespace, and what the two have in common.

A HorizontalPodAutoscaler, and KEDA by one, scales only what is in its own namespace: asked for an object of a
cluster-scoped kind, the API server answers 404. So there is a small kind in the operator's namespace whose objects are
named like their policies; the operator copies `spec.replicas` into the policy and the policy's figures back. There is
one truth, `spec.extraCapacity.replicas` of the policy: plans know nothing of this kind.
"""

from typing import Final

from slack.cluster.labels import API_VERSION, LABEL_PLACEHOLDER, LABEL_POLICY
from slack.documents.slackscale_status import SlackScaleStatus
from slack.schema.status_struct import column, status_schema
from slack.schema.structural import AGE, Schema, custom_resource

SCALE_KIND = "SlackScale"
SCALE_PLURAL = "slackscales"
MOST_REPLICAS = 5000
"""As `spec.extraCapacity.replicas`."""
_GROUP, _, _VERSION = API_VERSION.partition("/")


def scale_paths(replicas: str) -> Schema:
    """Return the paths of a scale subresource whose spec is the field at `replicas`."""
    return {
        "specReplicasPath": replicas,
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def selector_of(policy: str) -> str:
    """Return the label selector of a policy's placeholder pods; it never changes."""
    return f"{LABEL_PLACEHOLDER}=true,{LABEL_POLICY}={policy}"


def scale_crd() -> Schema:
    """Return the whole CustomResourceDefinition as it is applied."""
    return custom_resource(
        _GROUP,
        _VERSION,
        kind=SCALE_KIND,
        plural=SCALE_PLURAL,
        short_names=("slsc",),
        columns=(
            column("WANTED", ".spec.replicas", "Standard placeholders asked for.", kind="integer"),
            column("THERE", ".status.replicas", "Their room that is there, on nodes or not.", kind="integer"),
            column("READY", '.status.conditions[?(@.type=="Ready")].status', "The policy of its name follows it."),
            column("REASON", '.status.conditions[?(@.type=="Ready")].reason', "Why, or why not.", wide=True),
            AGE,
        ),
        schema=_SCHEMA,
        scope="Namespaced",
        scale=scale_paths(".spec.replicas"),
    )


_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "The /scale of the SlackPolicy of the same name, for autoscalers: a HorizontalPodAutoscaler scales "
    "only what is in its own namespace, and a SlackPolicy is in none. It counts in the operator's namespace only.",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
        "kind": {"type": "string", "description": f"Always {SCALE_KIND}."},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "description": "What is asked for.",
            "required": ["replicas"],
            "properties": {
                "replicas": {
                    "type": "integer",
                    "format": "int32",
                    "minimum": 0,
                    "maximum": MOST_REPLICAS,
                    "description": "What the operator writes into spec.extraCapacity.replicas of the policy.",
                }
            },
        },
        # Until the operator has looked, tools that go by kstatus would take a new object for done.
        "status": status_schema(SlackScaleStatus) | {"default": {"observedGeneration": -1}},
    },
    "x-kubernetes-validations": [
        {
            "rule": "self.metadata.name.size() <= 63",
            "message": "metadata.name: is the name of a SlackPolicy and must have at most 63 characters",
        }
    ],
}
