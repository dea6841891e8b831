"""SlackHistory: the small kind in the operator's namespace in which what a policy has learnt outlasts the operator.

A kind of its own and no ConfigMap: the operator then needs no right to any ConfigMap, and the API server bounds what
anybody may write there. Only the operator reads it; `learnt.state` is for no person.
"""

from typing import Final

from slack.cluster.labels import API_VERSION
from slack.documents.slackhistory import LearntHistory
from slack.schema.status_struct import column, status_schema
from slack.schema.structural import AGE, Schema, custom_resource

HISTORY_KIND = "SlackHistory"
HISTORY_PLURAL = "slackhistories"
_GROUP, _, _VERSION = API_VERSION.partition("/")

_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "What the SlackPolicy of this name has learnt about the pods that come, for its objective. Written "
    "by the operator every few minutes, and read when another takes over. Delete it to begin anew.",
    "properties": {
        "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
        "kind": {"type": "string", "description": f"Always {HISTORY_KIND}."},
        "metadata": {"type": "object"},
        "learnt": status_schema(LearntHistory),
    },
}


def history_crd() -> Schema:
    """Return the whole CustomResourceDefinition as it is applied."""
    return custom_resource(
        _GROUP,
        _VERSION,
        kind=HISTORY_KIND,
        plural=HISTORY_PLURAL,
        short_names=("slh",),
        columns=(
            column("HOURS", ".learnt.hours", "Hours that were watched.", kind="integer"),
            column("STARTED", ".learnt.started", "Pods that started in these hours.", kind="integer"),
            column("LATE", ".learnt.late", "Those that waited for a node.", kind="integer"),
            column("SAVED", ".learnt.savedAt", "When it was written.", kind="date"),
            AGE,
        ),
        schema=_SCHEMA,
        scope="Namespaced",
        status=False,
    )
