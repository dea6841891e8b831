"""Taints, labels and affinity: who may go where.

Nodes with the same relevant labels and taints form a *node class*; pods with the same scheduling constraints
share one `Constraints`. Whether one admits the other is decided once per pair, never per pod and node (R1-1).
The rules are kube-scheduler's: NodeAffinity and TaintToleration filter plugins (component-helpers
scheduling/corev1/nodeaffinity, apimachinery labels.Requirement, api core/v1 toleration.go, all 1.36).
Parsing of what the API sends is in `slack.cluster.constraints`; this module is values and rules only.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

DECLARED = "status.declaredFeatures/"
"""Before a feature's name: in `NodeClass.labels` it stands for a node that declares it. No label begins so."""
NODE_NAME = "metadata.name"
"""The one key of matchFields; in `NodeClass.labels` it stands for the node's name."""

UNHEALTHY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Of nodes that are not Ready, by key; with NoSchedule at once, and with NoExecute by the node monitor."""
NOT_READY_TAINTS = UNHEALTHY_TAINTS | frozenset(
    {
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/unregistered",
    }
)
NOT_SCHEDULABLE_TAINTS = frozenset(
    {
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/out-of-service",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "cloud.google.com/impending-node-termination",
    }
)
"""memory-pressure is not here: admission lets every pod with requests tolerate it.

Karpenter before 1.0 writes `disruption`.
"""
DELETION_CANDIDATE_TAINT = "DeletionCandidateOfClusterAutoscaler"
LIFECYCLE_TAINTS = (
    NOT_READY_TAINTS | NOT_SCHEDULABLE_TAINTS | {"node.kubernetes.io/memory-pressure", DELETION_CANDIDATE_TAINT}
)
"""Taints that come and go with a node's life, by key; see `is_transient` for all."""
_NODES_OWN = "node.kubernetes.io/"
"""Kubernetes' own taints, of newer versions too."""
_STARTUP = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "readiness.k8s.io/",
    "nidhogg.uswitch.com/",
)
"""Beginnings of taints that go once the node is up: Cluster Autoscaler's, of cloud controllers, of the node readiness
controller (there they may also come back) and of Nidhogg."""
_STARTUP_KEYS = frozenset(
    {
        "cni.istio.io/not-ready",
        "node.cluster.x-k8s.io/uninitialized",
        "node.deckhouse.io/csi-not-bootstrapped",
        "node.deckhouse.io/uninitialized",
        "node.gardener.cloud/critical-components-not-ready",
    }
)
"""Further such taints, of Istio, Cluster API, Deckhouse and Gardener."""
_AGENT_NAME = "/agent-not-ready"
"""The name that Cilium and CSI drivers give theirs, each with its own prefix: node.cilium.io/, ebs.csi.aws.com/. No
other end of a key is a convention: a taint that an owner calls `database-not-ready` may stay for good. Its age does not
tell: Cilium's comes back on old nodes. `TaintKeys` has what an owner says."""

_LEAVING = "aws-node-termination-handler/"
"""Before the reason why AWS takes a node away, or may: spot-itn, asg-lifecycle-termination and others."""
_LEAVING_KEYS = frozenset(
    {"remediator.aks.microsoft.com/unschedulable", "remediator.kubernetes.azure.com/unschedulable"}
)
"""Taints of nodes that a cloud repairs."""


def is_startup(key: str) -> bool:
    """Say whether a taint keeps pods away only until its node is up: such a node is not ready."""
    known = key in NOT_READY_TAINTS or key in _STARTUP_KEYS
    return known or key.startswith(_STARTUP) or key.endswith(_AGENT_NAME)


def is_transient(key: str) -> bool:
    """Say whether a taint comes and goes with a node's life: it is a flag of the node, never of its class.

    Pods on such a node stay in the base, and nobody is told to tolerate the taint.
    """
    return key in LIFECYCLE_TAINTS or key.startswith(_NODES_OWN) or is_startup(key) or _is_leaving(key)


def _is_leaving(key: str) -> bool:
    return key.startswith(_LEAVING) or key in _LEAVING_KEYS


def keeps_from_scheduling(key: str) -> bool:
    """Say whether a transient taint says that nothing more goes to a node, which may be ready."""
    known = key in NOT_SCHEDULABLE_TAINTS or _is_leaving(key)
    return known or (key.startswith(_NODES_OWN) and key not in LIFECYCLE_TAINTS and not is_startup(key))


_TAINT_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_TAINT_KEYS_BEGIN = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9_.]*(/[-A-Za-z0-9_.]*)?")


@dataclass(frozen=True, slots=True)
class TaintKeys:
    """Which taints are transient: those that are known here, and what an owner says of others."""

    startup: tuple[str, ...] = ()
    """Keys of an owner's own taints that go once a node is up; one that ends with `*` stands for all that begin so."""
    lasting: tuple[str, ...] = ()
    """Keys of taints that stay, though their name is that of a transient one."""

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "TaintKeys":
        """Read KEY, the beginning of keys as BEGIN*, and !KEY for a taint that lasts.

        Raises:
            ValueError: for what is none of these.
        """
        startup, lasting = list[str](), list[str]()
        for entry in entries:
            key, begin = entry.removeprefix("!"), entry.removesuffix("*")
            stays = key != entry
            form = _TAINT_KEYS_BEGIN if begin != entry else _TAINT_KEY
            if not form.fullmatch(key.removesuffix("*")) or (stays and begin != entry):
                raise ValueError(
                    f"{entry!r} is no key of a taint such as example.com/agents-not-ready; a beginning of keys ends "
                    "with *, as example.com/*, and ! before a key says that the taint lasts"
                )
            if stays and key.startswith(_NODES_OWN):
                raise ValueError(f"{entry!r}: Kubernetes itself sets {key} and takes it away, so it never lasts")
            (lasting if stays else startup).append(key)
        return cls(tuple(dict.fromkeys(startup)), tuple(dict.fromkeys(lasting)))

    def is_startup(self, key: str) -> bool:
        """Say whether a taint keeps pods away only until its node is up: such a node is not ready."""
        own = any(key.startswith(one[:-1]) if one.endswith("*") else key == one for one in self.startup)
        return key not in self.lasting and (own or is_startup(key))

    def is_transient(self, key: str) -> bool:
        """Say whether a taint comes and goes with a node's life."""
        return key not in self.lasting and (is_transient(key) or self.is_startup(key))

    def keeps_from_scheduling(self, key: str) -> bool:
        """Say whether a transient taint says that nothing more goes to a node, which may be ready."""
        return key not in self.lasting and keeps_from_scheduling(key)


KNOWN_TAINTS = TaintKeys()
"""Without any of an owner."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
"""What Go's strconv.ParseInt takes; Python's int() would also take blanks and underscores."""
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
"""What toleration comparison takes (apimachinery content.IsDecimalInteger)."""
_INT64 = 1 << 63
_LONGEST_INTEGER = 64
"""Characters, leading zeros among them; Python refuses to read thousands of digits."""


NodeSelectors = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""By a policy's name: keys and values of its node selector."""
NO_SELECTORS: NodeSelectors = ()


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A taint that keeps pods away: effect NoSchedule or NoExecute (PreferNoSchedule keeps nobody away)."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """A toleration as the API has it; an empty key with Exists tolerates everything, an empty effect all effects."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One expression of a node selector term: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False
    """True for matchFields, whose only key is metadata.name."""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that no policy, pod or placeholder of this cluster can tell apart."""

    labels: tuple[tuple[str, str], ...]
    """Relevant labels, sorted. `metadata.name` is among them only where some matchFields names it."""
    taints: tuple[Taint, ...]
    """Lasting taints, sorted; those that the node life cycle and autoscalers put on and off are node flags instead."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where a pod may go, parsed and in canonical order, so that equal constraints are equal values."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Required node selector terms: any of them, all expressions of it. () means none was given.

    A term without expressions matches nothing, so `((),)` stands for an affinity that no node can meet.
    """
    tolerations: tuple[Toleration, ...] = ()
    anti_affinity: str = ""
    """Canonical JSON of podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution, '' when there is none."""
    pod_affinity: str = ""
    """The same of required podAffinity."""
    topology_spread: str = ""
    """Canonical JSON of the topologySpreadConstraints with whenUnsatisfiable DoNotSchedule, '' when there is none."""
    scheduler_name: str = "default-scheduler"
    runtime_class: str = ""
    features: tuple[str, ...] = ()
    """What the node's kubelet must declare, as the NodeDeclaredFeatures plugin infers it (KEP-5328), sorted."""


def admits(constraints: Constraints, node_class: NodeClass) -> bool:
    """Say whether the scheduler lets pods with these constraints onto nodes of this class.

    Node selector, required node affinity and taints only: pod (anti-)affinity and spread depend on other pods,
    readiness and cordons are flags of single nodes.
    """
    if node_class.taints and _untolerated(constraints, node_class.taints) is not None:
        return False
    if not constraints.node_selector and not constraints.node_affinity and not constraints.features:
        return True
    labels = dict(node_class.labels)
    if any(DECLARED + name not in labels for name in constraints.features):
        return False
    return _unmet_selector(constraints, labels) is None and _affinity_met(constraints, labels)


def reason_against(constraints: Constraints, node_class: NodeClass) -> str:
    """Say in a few words why pods with these constraints may not go to nodes of this class; `''` if they may.

    The first reason in the scheduler's order of filters: taints last, because a selector is what people check first.
    """
    labels = dict(node_class.labels)
    unmet = _unmet_selector(constraints, labels)
    if unmet is not None:
        return f"node selector {unmet[0]}={unmet[1]} is not met"
    if not _affinity_met(constraints, labels):
        terms = " or ".join(_term_text(term) for term in constraints.node_affinity)
        return f"required node affinity {terms} is not met"
    for name in constraints.features:
        if DECLARED + name not in labels:
            return f"the node does not declare the feature {name}"
    taint = _untolerated(constraints, node_class.taints)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"taint {taint.key}{value}:{taint.effect} is not tolerated"
    return ""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Say whether one toleration tolerates one taint (api core/v1 toleration.go, ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt":
            # KEP-5471 (1.35+): where its gate is off, the API server takes no such toleration, so none is seen here.
            if not (_PLAIN_INTEGER.fullmatch(toleration.value) and _PLAIN_INTEGER.fullmatch(taint.value)):
                return False
            mine, its = integer(toleration.value), integer(taint.value)
            if mine is None or its is None:  # no int64: such a toleration tolerates nothing
                return False
            return its > mine if toleration.operator == "Gt" else its < mine
        case _:
            return False


def meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Say whether a node with these labels meets one expression; an expression that is not valid is met by none."""
    value = labels.get(requirement.key)
    values = requirement.values
    if requirement.field and (len(values) != 1 or requirement.operator not in ("In", "NotIn")):
        return False
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and value not in values
        case "Exists":
            return not values and value is not None
        case "DoesNotExist":
            return not values and value is None
        case "Gt" | "Lt":
            bound = integer(values[0]) if len(values) == 1 else None
            number = integer(value) if value is not None else None
            if bound is None or number is None:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
        case _:
            return False


def _untolerated(constraints: Constraints, taints: tuple[Taint, ...]) -> Taint | None:
    for taint in taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not any(tolerates(toleration, taint) for toleration in constraints.tolerations):
            return taint
    return None


def _unmet_selector(constraints: Constraints, labels: Mapping[str, str]) -> tuple[str, str] | None:
    for pair in constraints.node_selector:
        if labels.get(pair[0]) != pair[1]:
            return pair
    return None


def _affinity_met(constraints: Constraints, labels: Mapping[str, str]) -> bool:
    if not constraints.node_affinity:
        return True
    return any(term and all(meets(requirement, labels) for requirement in term) for term in constraints.node_affinity)


def _term_text(term: tuple[Requirement, ...]) -> str:
    if not term:
        return "(an empty term)"
    texts = []
    for requirement in term:
        values = f" ({', '.join(requirement.values)})" if requirement.values else ""
        texts.append(f"{requirement.key} {requirement.operator}{values}")
    return f"[{' and '.join(texts)}]"


def integer(text: str) -> int | None:
    """Return the number that Gt and Lt compare, None for a text that is none."""
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -_INT64 <= value < _INT64 else None
