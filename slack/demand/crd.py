"""The CustomResourceDefinitions of ActivationPool and ActivationQuota, generated from the pydantic models.

What `slack.demand.policy` refuses, a rule here refuses too, in the same words; but a namespace in `queue.name`, which
no rule can see: the controller says that in the status, and the command line at once. A template is kept whole.
"""

from typing import Any, Final

from slack.cluster.labels import API_VERSION
from slack.demand import policy, template
from slack.demand.broker_kind import LAG_ONLY_KINDS
from slack.demand.policy import (
    BOUNDS,
    POOL_KIND,
    QUEUE_NAME,
    QUOTA_KIND,
    ActivationPoolSpec,
    ActivationQuotaSpec,
    out_of_bounds,
)
from slack.documents.activation_status import ActivationPoolStatus, ActivationQuotaStatus
from slack.schema.status_struct import column, status_schema
from slack.schema.structural import AGE, QUANTITY, Rules, Schema, custom_resource, structural

GROUP, _, VERSION = API_VERSION.partition("/")
POOL_PLURAL: Final = "activationpools"
QUOTA_PLURAL: Final = "activationquotas"
_RESOURCES = "self.template.spec.containers[0].resources"
_MEMORY = (
    f"(has({_RESOURCES}.requests) && 'memory' in {_RESOURCES}.requests ? string({_RESOURCES}.requests['memory']) : "
    f"has({_RESOURCES}.limits) && 'memory' in {_RESOURCES}.limits ? string({_RESOURCES}.limits['memory']) : '0')"
)
_KEEPS_MESSAGES = " && ".join(f"self.queue.broker != '{kind}'" for kind in LAG_ONLY_KINDS)
_HAS_RESOURCES = f"has({_RESOURCES})"


def _bounds_rule(field: str) -> tuple[str, str]:
    shortest, longest = BOUNDS[field]
    name = "__for__" if field == "for" else field
    value = f"self.{name}"
    return (
        f"!has({value}) || (duration({value}) >= duration('{shortest}') && duration({value}) <= duration('{longest}'))",
        out_of_bounds(field),
    )


def _shorter_than_ack(field: str, message: str) -> tuple[str, str]:
    ack = "(has(self.queue) && has(self.queue.ackWait) ? duration(self.queue.ackWait) : duration('60s'))"
    return (
        f"!has(self.timing) || !has(self.timing.{field}) || {ack} > duration(self.timing.{field})",
        message,
    )


def _among(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


_RULES: Rules = {
    "QueueSpec": (
        (f"!has(self.name) || self.name.matches('{QUEUE_NAME}')", policy.NO_QUEUE_NAME),
        _bounds_rule("ackWait"),
    ),
    "ProxySpec": ((f"!has(self.path) || self.path.matches('{policy.PROXY_PATH}')", policy.NO_PATH),),
    "PoolLimits": (
        (
            "!has(self.minContainers) || self.minContainers <= (has(self.maxContainers) ? self.maxContainers : 20)",
            policy.MIN_ABOVE_MAX,
        ),
    ),
    "Timing": tuple(
        _bounds_rule(field) for field in ("tick", "stale", "idleTimeout", "holdTime", "creationTimeout", "longestRun")
    ),
    "KeepWarm": (_bounds_rule("for"),),
    "RetentionSpec": (_bounds_rule("maxAge"),),
    "DemandPart": (_bounds_rule("horizon"), _bounds_rule("window")),
    "ContainerTemplate": ((f"self.name != '{template.PROXY}'", template.NAME_TAKEN),),
    "TemplateSpec": (
        ("self.containers.size() > 0", template.NO_CONTAINER),
        ("!has(self.restartPolicy) || self.restartPolicy == 'Always'", template.ALWAYS_RESTARTED),
    ),
    "TemplateMetadata": (
        (
            f"!has(self.labels) || self.labels.all(key, !key.startsWith('{template.OURS}'))",
            template.NO_LABEL_OF_OURS,
        ),
        (
            f"!has(self.labels) || self.labels.all(key, !(key in {_among(template.FOREIGN_LABELS)}))",
            template.NO_FOREIGN_LABEL,
        ),
    ),
    "ActivationPoolSpec": (
        _shorter_than_ack("longestRun", policy.ACK_TOO_SHORT),
        _shorter_than_ack("expectedDuration", policy.RUN_TOO_LONG),
        (
            "!has(self.keepWarm) || !has(self.keepWarm.count) || self.keepWarm.count <= "
            "(has(self.limits) && has(self.limits.maxContainers) ? self.limits.maxContainers : 20)",
            policy.WARM_ABOVE_MAX,
        ),
        (
            f"!has(self.queue) || !has(self.queue.broker) || {_KEEPS_MESSAGES} || "
            "(has(self.proxy) && has(self.proxy.mode) && self.proxy.mode == 'none')",
            policy.LAG_ONLY,
        ),
        (
            "!has(self.mode) || self.mode != 'perMessage' || !has(self.proxy) || !has(self.proxy.maxConcurrency) || "
            "self.proxy.maxConcurrency <= 1",
            policy.ONE_MESSAGE,
        ),
        (
            f"self.template.spec.containers.size() == 0 || ({_HAS_RESOURCES} && {_MEMORY} != '0')",
            policy.NO_MEMORY,
        ),
        (
            f"!has(self.queue) || !has(self.queue.name) || !self.queue.name.matches('{QUEUE_NAME}') || "
            "self.queue.name.split('.').size() < 4 || self.template.spec.containers.size() == 0 || "
            f"int(self.queue.name.split('.')[3]) == ({_HAS_RESOURCES} && isQuantity({_MEMORY}) ? "
            f"(quantity({_MEMORY}).asInteger() + 1048575) / 1048576 : 0)",
            policy.OTHER_MEMORY,
        ),
    ),
}


def _integer(name: str, path: str, description: str, **more: Any) -> Schema:
    return column(name, path, description, kind="integer", **more)


POOL_COLUMNS: Final[tuple[Schema, ...]] = (
    _integer("WANTED", ".status.demand.wanted", "Containers that it needs."),
    _integer("READY", ".status.containers.ready", "Containers that are ready."),
    _integer("CREATING", ".status.containers.creating", "Containers that are being created."),
    _integer("LAG", ".status.lag.queued", "Messages that wait."),
    _integer("UNMET", ".status.demand.unmet", "Containers that no node has room for."),
    column("THROTTLED", ".status.throttled", "Whether new messages are refused.", kind="boolean"),
    column("REASON", '.status.conditions[?(@.type=="Ready")].reason', "Why it works, or why not.", wide=True),
    column("QUEUE", ".status.queue", "Where its messages go.", wide=True),
    AGE,
)
QUOTA_COLUMNS: Final[tuple[Schema, ...]] = (
    _integer("CONTAINERS", ".spec.maxContainers", "Containers that the namespace may have."),
    _integer("USED", ".status.used.containers", "Containers that it has."),
    _integer("POOLS", ".status.pools", "Pools of the namespace."),
    _integer("THROTTLED", ".status.throttled", "Pools that refuse messages."),
    AGE,
)
_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}


def _with_template(spec: Schema) -> Schema:
    """Keep what a template has beside what is judged here."""
    # the one default that is written down: /scale is an error for who has never said it
    spec["properties"]["limits"] |= {"default": {"minContainers": 0}}
    spec["properties"]["limits"]["properties"]["minContainers"] |= {"default": 0}
    pod = spec["properties"]["template"]
    pod["properties"]["metadata"] |= _OPEN
    labels = pod["properties"]["metadata"]["properties"]
    labels["annotations"] = {
        "type": "object",
        "description": labels["annotations"]["description"],
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 4096},
    }
    pod["properties"]["spec"] |= _OPEN
    containers = pod["properties"]["spec"]["properties"]["containers"]
    containers["items"] |= _OPEN
    resources = containers["items"]["properties"]["resources"]
    resources |= _OPEN
    for kind in ("requests", "limits"):
        resources["properties"][kind] = {
            "type": "object",
            "description": resources["properties"][kind]["description"],
            "maxProperties": 32,
            "additionalProperties": dict(QUANTITY),
        }
    return spec


def pool_crd() -> Schema:
    """Return the CustomResourceDefinition of ActivationPool as it is applied."""
    spec = structural(ActivationPoolSpec.model_json_schema(by_alias=True), "ActivationPoolSpec", _RULES)
    rules = [
        {
            "rule": f"self.metadata.name.size() <= 63 && self.metadata.name.matches('{policy.POOL_NAME}')",
            "message": policy.NO_POOL_NAME,
        },
        {
            "rule": "!has(self.spec.queue) || !has(self.spec.queue.name) || self.spec.queue.name.split('.').size() < 3 "
            "|| self.spec.queue.name.split('.')[2] == self.metadata.name",
            "message": policy.OTHER_ACTION,
        },
    ]
    scale = {
        "specReplicasPath": ".spec.limits.minContainers",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    described = "Containers of one action that follow its queue."
    return custom_resource(
        GROUP,
        VERSION,
        kind=POOL_KIND,
        plural=POOL_PLURAL,
        short_names=("actpool",),
        columns=POOL_COLUMNS,
        schema=_whole(POOL_KIND, described, _with_template(spec), status_schema(ActivationPoolStatus), rules),
        scope="Namespaced",
        scale=scale,
    )


def quota_crd() -> Schema:
    """Return the CustomResourceDefinition of ActivationQuota as it is applied."""
    spec = structural(ActivationQuotaSpec.model_json_schema(by_alias=True), "ActivationQuotaSpec", {})
    described = "What all ActivationPools of a namespace may have together. Of several in one each holds."
    return custom_resource(
        GROUP,
        VERSION,
        kind=QUOTA_KIND,
        plural=QUOTA_PLURAL,
        short_names=("actquota",),
        columns=QUOTA_COLUMNS,
        schema=_whole(QUOTA_KIND, described, spec, status_schema(ActivationQuotaStatus), []),
        scope="Namespaced",
    )


def _whole(kind: str, described: str, spec: Schema, status: Schema, rules: list[dict[str, Any]]) -> Schema:
    return {
        "type": "object",
        "description": described,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {kind}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        **({"x-kubernetes-validations": rules} if rules else {}),
    }
