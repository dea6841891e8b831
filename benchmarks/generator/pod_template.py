"""A workload's pod as its controller sends it, and as the API server keeps it at each stage, with slots.

Fields are in the order of the API's Go structs, as the server writes them. What admission adds (the token's volume,
tolerations, priority, topology labels) is in no managedFields entry, as on a real server.
"""

import random

from benchmarks.generator.containers import containers, init_containers
from benchmarks.generator.fields import entry, roots
from benchmarks.generator.pod_status import STATUS, kubelet_fields, scheduler_fields
from benchmarks.generator.pools import GPU, REGION, ZONES
from benchmarks.generator.size import Json
from benchmarks.generator.slots import Template, slot
from benchmarks.generator.states import Stage
from benchmarks.generator.workloads import Kind, Spread, Workload

PRIORITIES = {"business": 1_000, "urgent": 100_000, "whenever": 1, "system-node-critical": 2_000_001_000, "": 0}
NEVER_PREEMPTING = frozenset(("whenever",))
SERVICE_ACCOUNTS = ("default", "app")
_TOKEN = "kube-api-access-"
_OWNERS = {
    Kind.DEPLOYMENT: ("apps/v1", "ReplicaSet"),
    Kind.CRON_JOB: ("batch/v1", "Job"),
    Kind.JOB: ("batch/v1", "Job"),
}
_POD_FIELDS = [
    "volumes",
    "initContainers",
    "containers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "serviceAccount",
    "nodeName",
    "hostNetwork",
    "securityContext",
    "hostname",
    "subdomain",
    "affinity",
    "schedulerName",
    "tolerations",
    "priorityClassName",
    "priority",
    "enableServiceLinks",
    "preemptionPolicy",
    "topologySpreadConstraints",
]
_CONTAINER_FIELDS = [
    "name",
    "image",
    "command",
    "args",
    "ports",
    "env",
    "resources",
    "restartPolicy",
    "volumeMounts",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
]
_BEFORE_KUBELET = (Stage.CREATED, Stage.BOUND)


def sent(workload: Workload, seed: int) -> tuple[Json, Json]:
    """Return metadata and spec as the controller (or a person, of bare pods) sends them, defaults filled in."""
    rng = random.Random(f"template {seed} {workload.number}")
    return _metadata(workload, rng), _spec(workload, rng)


def pod_template(workload: Workload, stage: Stage, seed: int) -> Template:
    """Return the Pod object of one stage, as an item of a list: without kind and apiVersion."""
    metadata, spec = sent(workload, seed)
    manager = "kubectl-create" if workload.kind is Kind.BARE else "kube-controller-manager"
    owned_metadata = {key: value for key, value in metadata.items() if key not in ("name", "namespace")}
    fields = [entry(manager, slot("created"), roots(metadata=owned_metadata, spec=spec))]
    kept = _kept(spec, workload, bound=stage not in (Stage.CREATED, Stage.UNSCHEDULABLE))
    status = STATUS[stage](kept)
    if stage is Stage.UNSCHEDULABLE:
        fields.append(entry("kube-scheduler", slot("changed"), scheduler_fields(status), "status"))
    elif stage not in _BEFORE_KUBELET:
        fields.append(entry("kubelet", slot("changed"), kubelet_fields(status), "status"))
    return Template(
        {"metadata": _stored_metadata(metadata, stage) | {"managedFields": fields}, "spec": kept, "status": status}
    )


def _metadata(workload: Workload, rng: random.Random) -> Json:
    kind, owned = workload.kind, workload.kind is not Kind.BARE
    app = workload.name.rsplit("-", 1)[0]
    labels = {"app": workload.name, "app.kubernetes.io/name": app}
    if rng.random() < 0.4:
        labels |= {"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": f"1.{rng.randrange(60)}.0"}
    if rng.random() < 0.5:
        labels |= {"team": workload.namespace}
    annotations: dict[str, str] = {}
    if rng.random() < 0.4:
        annotations |= {"prometheus.io/port": "9090", "prometheus.io/scrape": "true"}
    if rng.random() < 0.3:
        annotations["checksum/config"] = f"{rng.getrandbits(256):064x}"
    if rng.random() < 0.15:
        annotations["kubectl.kubernetes.io/restartedAt"] = "2026-12-01T09:30:00Z"
    metadata: Json = {"name": slot("name")}
    metadata |= {"generateName": f"{slot('owner')}-"} if owned else {}
    metadata |= {"namespace": workload.namespace, "labels": dict(sorted((labels | _kind_labels(kind)).items()))}
    metadata |= {"annotations": dict(sorted(annotations.items()))} if annotations else {}
    if owned:
        version, owner = _OWNERS.get(kind, ("apps/v1", kind.value))
        reference = {"apiVersion": version, "kind": owner, "name": slot("owner"), "uid": slot("owner_uid")}
        metadata["ownerReferences"] = [reference | {"controller": True, "blockOwnerDeletion": True}]
    if kind in (Kind.JOB, Kind.CRON_JOB):
        metadata["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    return metadata


def _kind_labels(kind: Kind) -> dict[str, str]:
    if kind is Kind.DEPLOYMENT:
        return {"pod-template-hash": slot("hash")}
    if kind is Kind.STATEFUL_SET:
        return {
            "apps.kubernetes.io/pod-index": slot("ordinal"),
            "controller-revision-hash": f"{slot('owner')}-{slot('hash')}",
            "statefulset.kubernetes.io/pod-name": slot("name"),
        }
    if kind is Kind.DAEMON_SET:
        return {"controller-revision-hash": slot("hash"), "pod-template-generation": "1"}
    if kind in (Kind.JOB, Kind.CRON_JOB):
        old = {"controller-uid": slot("owner_uid"), "job-name": slot("owner")}
        return old | {f"batch.kubernetes.io/{key}": value for key, value in old.items()}
    return {}


def _stored_metadata(metadata: Json, stage: Stage) -> Json:
    deleted = stage in (Stage.TERMINATING, Stage.ENDED)
    head = {key: metadata[key] for key in ("name", "generateName", "namespace") if key in metadata}
    rest = {key: metadata[key] for key in ("annotations", "ownerReferences", "finalizers") if key in metadata}
    labels = dict(metadata["labels"])
    if stage not in (Stage.CREATED, Stage.UNSCHEDULABLE):
        labels |= {"topology.kubernetes.io/region": REGION, "topology.kubernetes.io/zone": slot("zone")}
    given: Json = {
        "uid": slot("uid"),
        "resourceVersion": slot("version"),
        "generation": 2 if deleted else 1,
        "creationTimestamp": slot("created"),
    }
    if deleted:
        grace = 0 if stage is Stage.ENDED else 30
        given |= {"deletionTimestamp": slot("deleted"), "deletionGracePeriodSeconds": grace}
    if stage is Stage.ENDED:
        rest.pop("finalizers", None)  # or it would still be there
    return head | given | {"labels": dict(sorted(labels.items()))} | rest


def _spec(workload: Workload, rng: random.Random) -> Json:
    restricted, configured = rng.random() < 0.25, rng.random() < 0.3
    is_job = workload.kind in (Kind.JOB, Kind.CRON_JOB)
    spec: Json = {
        "containers": containers(workload, rng, restricted, configured),
        "restartPolicy": "Never" if is_job else "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {"runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}} if restricted else {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }
    if configured:
        config = {"name": f"{workload.name}-config", "defaultMode": 420}
        spec["volumes"] = [{"name": "config", "configMap": config}, {"name": "scratch", "emptyDir": {}}]
    if before := init_containers(workload, restricted):
        spec["initContainers"] = before
    if rng.random() < 0.5 and workload.kind is not Kind.DAEMON_SET:
        spec |= {"serviceAccountName": "app", "serviceAccount": "app"}
    if workload.kind is Kind.STATEFUL_SET:
        spec |= {"hostname": slot("name"), "subdomain": workload.name}
    if workload.priority_class:
        spec["priorityClassName"] = workload.priority_class
    if tolerations := _tolerations(workload):
        spec["tolerations"] = tolerations
    return _ordered(spec | _constraints(workload), _POD_FIELDS)


def _tolerations(workload: Workload) -> list[Json]:
    if workload.kind is Kind.DAEMON_SET:
        states = [("not-ready", "NoExecute"), ("unreachable", "NoExecute")]
        states += [(f"{pressure}-pressure", "NoSchedule") for pressure in ("disk", "memory", "pid")]
        states.append(("unschedulable", "NoSchedule"))
        every: list[Json] = [{"operator": "Exists"}]
        return every + [
            {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": effect} for state, effect in states
        ]
    if "batch" in workload.pools:
        return [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]
    return [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}] if workload.gpus else []


def _constraints(workload: Workload) -> Json:
    constraints: Json = {}
    affinity: Json = {}
    selects = {"matchLabels": {"app": workload.name}}
    by_host: Json = {"labelSelector": selects, "topologyKey": "kubernetes.io/hostname"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    reach = workload.reach
    if workload.kind is Kind.DAEMON_SET:
        if reach.pools:
            constraints["nodeSelector"] = {"pool": reach.pools[0]}
        own_node = {"key": "metadata.name", "operator": "In", "values": [slot("target")]}
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": [{"matchFields": [own_node]}]}}
    elif reach.by_affinity:
        key, values = ("pool", list(reach.pools)) if reach.pools else ("topology.kubernetes.io/zone", _zones(workload))
        wanted = {"key": key, "operator": "In", "values": values}
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    elif reach.pools:
        constraints["nodeSelector"] = {"pool": reach.pools[0]}
    elif reach.zones:
        constraints["nodeSelector"] = {"topology.kubernetes.io/zone": _zones(workload)[0]}
    if workload.spread is Spread.APART:
        affinity["podAntiAffinity"] = {required: [by_host]}
    elif workload.spread is Spread.PREFER_APART:
        affinity["podAntiAffinity"] = {preferred: [{"weight": 100, "podAffinityTerm": by_host}]}
    elif workload.spread in (Spread.ZONES, Spread.PREFER_ZONES):
        otherwise = "DoNotSchedule" if workload.spread is Spread.ZONES else "ScheduleAnyway"
        spread: Json = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": otherwise}
        constraints["topologySpreadConstraints"] = [spread | {"labelSelector": selects}]
    return constraints | ({"affinity": affinity} if affinity else {})


def _zones(workload: Workload) -> list[str]:
    return [ZONES[zone] for zone in workload.reach.zones]


def _kept(spec: Json, workload: Workload, bound: bool) -> Json:
    """Return the spec as stored: with what admission adds."""
    name = f"{_TOKEN}{slot('token')}"
    mount = {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    kept: Json = {"serviceAccountName": "default", "serviceAccount": "default"} | spec
    kept["volumes"] = [*spec.get("volumes", ()), _token_volume(name)]
    for key in ("initContainers", "containers"):
        if key in spec:
            mounted = [
                container | {"volumeMounts": [*container.get("volumeMounts", ()), mount]} for container in spec[key]
            ]
            kept[key] = [_ordered(container, _CONTAINER_FIELDS) for container in mounted]
    if workload.kind is not Kind.DAEMON_SET:
        kept["tolerations"] = spec.get("tolerations", []) + [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ]
    kept["priority"] = PRIORITIES[workload.priority_class]
    kept["preemptionPolicy"] = "Never" if workload.priority_class in NEVER_PREEMPTING else "PreemptLowerPriority"
    return _ordered(kept | ({"nodeName": slot("node")} if bound else {}), _POD_FIELDS)


def _token_volume(name: str) -> Json:
    downward = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [downward]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _ordered(manifest: Json, fields: list[str]) -> Json:
    return {field: manifest[field] for field in fields if field in manifest}
