"""The SlackPolicy CustomResourceDefinition, generated from the pydantic models: one source for both checks.

Invariants: the schema is structural; what a validator of `slack.planner.policy.spec` refuses and the API server can
decide, a bound, a pattern or a CEL rule here refuses too, in the same words; defaults are not materialised, so
that an operator's flag or a later version can still change them. What neither can decide (a cron expression, a time
zone) the operator says in status.
"""

from typing import Final

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.image_names import IMAGE_NAME, NO_IMAGE
from slack.cluster.labels import API_VERSION, SLACK_POLICIES
from slack.cluster.rates import NEEDS_CEILING
from slack.documents.slackpolicy_status import SlackPolicyStatus
from slack.planner.policy.placeholders import (
    ANNOTATION_TAKEN,
    ANNOTATIONS_NOT_TAKEN,
    LABEL_TAKEN,
    LABELS_NOT_TAKEN,
    LOCAL_PROFILE,
    NO_SECRET,
    SECRET_NAME,
)
from slack.planner.policy.scale import scale_paths
from slack.planner.policy.spec import KIND, NO_CHANGE, NO_SCHEDULER, ONE_NUMBER, ONE_THRESHOLD, PolicySpec
from slack.planner.policy.warm import NO_BYTES, NO_IMAGES
from slack.schema.status_struct import column, status_schema
from slack.schema.structural import AGE, Rules, Schema, custom_resource, structural

PLURAL = SLACK_POLICIES
GROUP, _, VERSION = API_VERSION.partition("/")

_RULES: Rules = {
    "TolerationSpec": (
        (
            "has(self.key) && self.key != ''",
            "a toleration without a key tolerates every taint, that of a dying node too; name the key",
        ),
        (
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            "operator Exists takes no value; leave it out or use Equal",
        ),
    ),
    "LadderStep": (
        (
            "(has(self.fromNodes) ? 1 : 0) + (has(self.fromRequested) ? 1 : 0) + "
            "(has(self.fromAllocatable) ? 1 : 0) == 1",
            ONE_THRESHOLD,
        ),
    ),
    "ScheduleWindow": (
        ("has(self.cron) != has(self.start)", "give either cron with duration, or start with until"),
        (
            "!has(self.cron) || (has(self.duration) && duration(self.duration) > duration('0s'))",
            "a cron window needs a duration such as 12h",
        ),
        (
            "!has(self.start) || has(self.until)",
            "start and until are both needed, with an offset, such as 2026-11-27T06:00:00Z",
        ),
        ("!has(self.start) || !has(self.until) || self.until > self.start", "until is not after start"),
        (
            "has(self.minRate) || has(self.floor) || has(self.replicas) || has(self.nodes)",
            NO_CHANGE,
        ),
        ("!has(self.nodes) || !has(self.replicas)", ONE_NUMBER),
    ),
    "ExtraCapacity": (
        ("!has(self.nodes) || !has(self.replicas)", ONE_NUMBER),
        (
            "!has(self.floor) || !has(self.ceiling) || self.floor.all(name, !(name in self.ceiling) || "
            "quantity(string(self.floor[name])).compareTo(quantity(string(self.ceiling[name]))) <= 0)",
            "floor is above ceiling",
        ),
        (
            "((!has(self.minRate) || self.minRate <= 1.0) && "
            "(!has(self.ladder) || self.ladder.all(step, step.minRate <= 1.0)) && "
            "(!has(self.schedule) || self.schedule.all(window, !has(window.minRate) || window.minRate <= 1.0))) || "
            "(has(self.ceiling) && 'cpu' in self.ceiling && 'memory' in self.ceiling)",
            NEEDS_CEILING,
        ),
    ),
    "PolicySpec": (
        (f"!has(self.schedulerName) || self.schedulerName != '{UNBOUND_SCHEDULER}'", NO_SCHEDULER),
        (
            "!has(self.objective) || !has(self.extraCapacity) || (!has(self.extraCapacity.minRate) && "
            "!has(self.extraCapacity.replicas) && !has(self.extraCapacity.nodes) && "
            "(!has(self.extraCapacity.ladder) || self.extraCapacity.ladder.size() == 0))",
            "objective is in place of extraCapacity's minRate, replicas, nodes and ladder; give one of them",
        ),
        (
            "!has(self.objective) || !has(self.extraCapacity) || !has(self.extraCapacity.schedule) || "
            "self.extraCapacity.schedule.all(window, !has(window.minRate) && !has(window.replicas) && "
            "!has(window.nodes))",
            "with an objective a window of extraCapacity.schedule can raise the floor only",
        ),
    ),
    "PodSelector": (
        (
            "(has(self.namespace) && self.namespace != '') || (has(self.ownerKind) && self.ownerKind != '') || "
            "(has(self.name) && self.name != '')",
            "an empty selector would exclude every pod; give namespace, ownerKind or name",
        ),
    ),
    "SelectorRequirement": (
        ("self.key != ''", "a requirement needs the key of a label"),
        (
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "operators In and NotIn need values, Exists and DoesNotExist take none",
        ),
    ),
    "SecurityProfile": (
        (
            "(has(self.type) && self.type == 'Localhost') == "
            "(has(self.localhostProfile) && self.localhostProfile.size() > 0)",
            LOCAL_PROFILE,
        ),
    ),
    "PullSecret": ((f"self.name.matches(r'{SECRET_NAME}')", NO_SECRET),),
    "Placeholders": (
        (f"!has(self.labels) || self.labels.all(key, !key.matches(r'{LABELS_NOT_TAKEN}'))", LABEL_TAKEN),
        (
            f"!has(self.annotations) || self.annotations.all(key, !key.matches(r'{ANNOTATIONS_NOT_TAKEN}'))",
            ANNOTATION_TAKEN,
        ),
    ),
    "Warm": (
        (f"!has(self.imageList) || self.imageList.all(name, name.matches(r'{IMAGE_NAME}'))", NO_IMAGE),
        (
            "!has(self.maxBytesPerNode) || (isQuantity(string(self.maxBytesPerNode)) && "
            "quantity(string(self.maxBytesPerNode)).compareTo(quantity('0')) > 0)",
            NO_BYTES,
        ),
        ("!has(self.images) || self.images != 'None' || (has(self.imageList) && self.imageList.size() > 0)", NO_IMAGES),
    ),
    "NodeTemplate": (
        ("'cpu' in self.allocatable && 'memory' in self.allocatable", "allocatable needs cpu and memory"),
    ),
}
"""By model: the rule and what is said when it does not hold (the model validators' own words)."""


# Until the operator has looked, tools that go by kstatus would take a new policy for done.
STATUS_SCHEMA: Final[Schema] = status_schema(SlackPolicyStatus) | {"default": {"observedGeneration": -1}}
PRINTER_COLUMNS: Final[tuple[Schema, ...]] = (
    column("READY", '.status.conditions[?(@.type=="Ready")].status', "Accepted and acted upon."),
    column(
        "SLACK", ".status.summary.state", "How the slack is: Reserved, Refilling, CeilingReached, or all that is wrong."
    ),
    column("RATE", ".status.summary.rate", "The rate in force, after ladder and schedule; or the objective."),
    column("DESIRED", ".status.summary.desired", "Extra capacity wanted, cpu/memory."),
    column("RESERVED", ".status.summary.reserved", "Extra capacity that is there, cpu/memory."),
    column("PENDING", ".status.pending", "Placeholders that lack capacity: a node is to come.", kind="integer"),
    column("INSTANT", ".status.instantStart", "Instant starts: share of real pods bound within 2 s of their creation."),
    column("TO-READY", ".status.timeToReady.summary", "From creation to Ready: p50 and p99."),
    column(
        "OBSERVED",
        ".status.observedTime",
        "How old the status is: more than 15 minutes means that no operator keeps it up.",
        kind="date",
    ),
    column("HOLD", ".status.hold.form", "Bound: placeholders run. Unbound: the capacity stays free.", wide=True),
    column("NODES", ".status.nodes", "Nodes of the policy that can take placeholders.", kind="integer", wide=True),
    column("COVERED", '.status.conditions[?(@.type=="Covered")].status', "Enough pods fit one placeholder.", wide=True),
    column("BURST", ".status.burst", "Placeholders that one burst can take.", kind="integer", wide=True),
    column("DISPLACED", ".status.displaced.total", "Placeholders that pods pushed out.", kind="integer", wide=True),
    column(
        "SATISFIED",
        '.status.conditions[?(@.type=="SlackSatisfied")].status',
        "All wanted room is there; False during a refill too.",
        wide=True,
    ),
    column("LIMIT", ".status.limit", "The ceiling or floor that binds.", wide=True),
    column("REMEDY", ".status.summary.remedy", "What to do about the state.", wide=True),
)
"""AGE, from the metadata, is added by the CRD."""


def crd() -> Schema:
    """Return the whole CustomResourceDefinition as it is applied."""
    return custom_resource(
        GROUP,
        VERSION,
        kind=KIND,
        plural=PLURAL,
        short_names=("slp",),
        columns=(*PRINTER_COLUMNS, AGE),
        schema=_object(),
        scale=scale_paths(".spec.extraCapacity.replicas"),
    )


def _object() -> Schema:
    source = PolicySpec.model_json_schema(by_alias=True)
    spec = structural(source, "PolicySpec", _RULES)
    return {
        "type": "object",
        "description": "Room kept for pods that are yet to come, by placeholder pods of low priority that they push "
        "out. Is it there? kubectl get slackpolicies, or kubectl slack status.",
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": STATUS_SCHEMA,
        },
        "x-kubernetes-validations": [
            {
                "rule": "self.metadata.name.size() <= 63",
                "message": "metadata.name: is the value of a label and must have at most 63 characters",
            }
        ],
    }
