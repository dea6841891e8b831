"""Node objects as kubelets register and report them: about 12 KB, most of it the fifty images that a kubelet names."""

import hashlib
import json
import random

from benchmarks.generator.fields import entry, roots
from benchmarks.generator.layout import Layout
from benchmarks.generator.pools import GPU, MACHINES, PODS_PER_NODE, REGION, ZONES, Machine, node_address, node_name
from benchmarks.generator.size import NOW, Json
from benchmarks.generator.slots import Template, number, slot
from benchmarks.generator.states import digest, timestamp, uid

_IMAGES = 50
_CATALOG = 400
_OLDEST_SECONDS = 90 * 86_400
_HEALTHY = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


class NodeWriter:
    """Writes the nodes of one cluster."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._templates = [Template(_manifest(machine)) for machine in MACHINES]
        self._catalog = sorted((_image(place) for place in range(_CATALOG)), reverse=True)

    def item(self, node: int) -> str:
        """Return the object as an item of a list."""
        layout = self._layout
        data = digest("node", layout.seed, node)
        rng = random.Random(data)
        created = int(NOW) - _OLDEST_SECONDS + int(rng.random() * (_OLDEST_SECONDS - 86_400) * 0.3)
        images = sorted(rng.sample(self._catalog, _IMAGES), reverse=True)  # the largest first, as the kubelet does
        return self._templates[int(layout.nodes.machine[node])].fill(
            {
                "name": node_name(node),
                "uid": uid(data),
                "system_uid": uid(data[16:]),
                "machine_id": data.hex()[:32],
                "version": layout.node_version(node),
                "created": timestamp(created),
                "heartbeat": timestamp(int(NOW) - data[0]),
                "zone": ZONES[int(layout.nodes.zone[node])],
                "address": node_address(node),
                "network": f"100.{64 + (node >> 9 & 63)}.{node >> 1 & 255}.{(node & 1) << 7}/25",
                "images": f"[{','.join(text for _, text in images)}]",
            }
        )


def _image(place: int) -> tuple[int, str]:
    content = hashlib.sha256(f"image {place}".encode()).hexdigest()
    team, tag = f"team-{place % 40:02}", f"v{place % 7}.{place % 31}.{place % 13}"
    name = f"cr.example.com/{team}/app-{place:03}"
    size = 4_000_000 + int(content[:6], 16) * 40
    return size, json.dumps(
        {"names": [f"{name}@sha256:{content}", f"{name}:{tag}"], "sizeBytes": size}, separators=(",", ":")
    )


def _manifest(machine: Machine) -> Json:
    labels, annotations = _labels(machine), {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    spec: Json = {"podCIDR": slot("network"), "podCIDRs": [slot("network")]}
    spec["providerID"] = f"example:///{slot('zone')}/{slot('machine_id')}"
    if machine.taint:
        spec["taints"] = [machine.taint]
    status = _status(machine)
    by_kubelet: Json = {key: spec[key] for key in ("providerID", "taints") if key in spec}
    by_manager = roots(
        metadata={"annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        spec={key: spec[key] for key in ("podCIDR", "podCIDRs")},
    )
    del by_manager["f:metadata"]["f:annotations"]["."]
    metadata: Json = {
        "name": slot("name"),
        "uid": slot("uid"),
        "resourceVersion": slot("version"),
        "creationTimestamp": slot("created"),
        "labels": labels,
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"} | annotations,
        "managedFields": [
            entry(
                "kubelet",
                slot("created"),
                roots(metadata={"annotations": annotations, "labels": labels}, spec=by_kubelet),
            ),
            entry("kube-controller-manager", slot("created"), by_manager),
            entry("kubelet", slot("heartbeat"), _kubelets(status), "status"),
        ],
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def _labels(machine: Machine) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": slot("name"),
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.instance_type,
        "pool": machine.pool,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": slot("zone"),
    }


def _kubelets(status: Json) -> Json:
    """Return what the kubelet has changed since it registered the node."""
    times = ("lastHeartbeatTime", "lastTransitionTime", "message", "reason", "status")
    conditions: Json = {
        f'k:{{"type":"{condition["type"]}"}}': {f"f:{key}": {} for key in times} for condition in status["conditions"]
    }
    rest = roots(status={key: status[key] for key in ("allocatable", "capacity", "images", "nodeInfo")})["f:status"]
    for key in ("f:allocatable", "f:capacity", "f:nodeInfo"):
        rest[key].pop(".")
    return {"f:status": dict(sorted((rest | {"f:conditions": dict(sorted(conditions.items()))}).items()))}


def _status(machine: Machine) -> Json:
    gpus = {GPU: str(machine.gpus)} if machine.gpus else {}
    other = {"hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": str(PODS_PER_NODE)}
    capacity = {
        "cpu": str(machine.cores),
        "ephemeral-storage": "209702892Ki",
        "memory": f"{machine.capacity_kibibytes}Ki",
    }
    allocatable = {
        "cpu": f"{machine.cpu_millis}m",
        "ephemeral-storage": "192188443124",
        "memory": f"{machine.memory_kibibytes}Ki",
    }
    return {
        "capacity": dict(sorted((capacity | other | gpus).items())),
        "allocatable": dict(sorted((allocatable | other | gpus).items())),
        "conditions": [
            *(_condition(kind, "False", reason, message) for kind, reason, message in _HEALTHY),
            _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": slot("address")},
            {"type": "InternalDNS", "address": slot("name")},
            {"type": "Hostname", "address": slot("name")},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": slot("machine_id"),
            "systemUUID": slot("system_uid"),
            "bootID": slot("uid"),
            "kernelVersion": "6.12.30-cloud-amd64",
            "osImage": "Debian GNU/Linux 13 (trixie)",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": number("images"),
        "runtimeHandlers": [
            {"name": name, "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}}
            for name in ("", "runc")
        ],
        "features": {"supplementalGroupsPolicy": True},
    }


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": slot("heartbeat"),
        "lastTransitionTime": slot("created"),
        "reason": reason,
        "message": message,
    }
