"""The containers of a pod template: drawn once a workload, in the fields' order of the API's Go structs."""

import random

from benchmarks.generator.pools import GPU, quantity_of_cpu, quantity_of_memory
from benchmarks.generator.size import Json
from benchmarks.generator.workloads import SIDE_CPU_MILLIS, SIDE_MEMORY_MEBIBYTES, Kind, Workload

_REGISTRY = "registry.example.com"
_LASTS: Json = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
_LOCKED_DOWN: Json = {
    "securityContext": {
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
    }
}
_SETTINGS = (
    ("LOG_LEVEL", "info"),
    ("LOG_FORMAT", "json"),
    ("DATABASE_URL", "postgres://db.data.svc.cluster.local:5432/app?sslmode=require"),
    ("CACHE_ADDRESS", "cache.data.svc.cluster.local:6379"),
    ("QUEUE_BROKERS", "broker-0.queue:9092,broker-1.queue:9092,broker-2.queue:9092"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.observability:4317"),
    ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=production,service.version=1.42.0"),
    ("HTTP_TIMEOUT_SECONDS", "30"),
    ("FEATURE_FLAGS", "checkout-v2,fast-search,no-legacy-login"),
    ("REGION", "eu-1"),
    ("MAX_CONNECTIONS", "256"),
    ("GRACEFUL_SHUTDOWN", "true"),
    ("TZ", "Etc/UTC"),
)


def containers(workload: Workload, rng: random.Random, restricted: bool, configured: bool) -> list[Json]:
    """Return the pod's containers; the first bears the workload's own requests."""
    found = [_main(workload, rng, restricted, configured)]
    if workload.second_container:
        ports = [{"name": "exporter", "containerPort": 9187, "protocol": "TCP"}]
        found.append(_side("exporter", {"ports": ports, "resources": _side_resources()}, restricted))
    return found


def init_containers(workload: Workload, restricted: bool) -> list[Json]:
    """Return what runs before them: a migration that ends, a proxy that stays."""
    found = []
    if workload.init_container:
        resources = {"requests": {"cpu": "10m", "memory": "32Mi"}}
        found.append(_side("migrate", {"command": ["/bin/migrate", "--up"], "resources": resources}, restricted))
    if workload.native_sidecar:
        probe = _probe({"httpGet": {"path": "/ready", "port": 15021, "scheme": "HTTP"}}, failures=60)
        fields: Json = {"resources": _side_resources(), "restartPolicy": "Always", "startupProbe": probe}
        found.append(_side("mesh", fields, restricted))
    return found


def _main(workload: Workload, rng: random.Random, restricted: bool, configured: bool) -> Json:
    version = f"v{rng.randrange(1, 9)}.{rng.randrange(40)}.{rng.randrange(20)}"
    app = workload.name.rsplit("-", 1)[0]
    serves = workload.kind in (Kind.DEPLOYMENT, Kind.STATEFUL_SET)
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    if rng.random() < 0.4:
        ports.append({"name": "metrics", "containerPort": 9090, "protocol": "TCP"})
    container: Json = {"name": app, "image": f"{_REGISTRY}/{workload.namespace}/{app}:{version}"}
    container |= {} if serves else {"command": [f"/bin/{app}"]}
    container |= {"args": [f"--mode={app}", "--port=8080"]} if rng.random() < 0.5 else {}
    container |= {"ports": ports} if serves or workload.kind is Kind.DAEMON_SET else {}
    environment = _environment(workload, rng)
    container |= {"env": environment} if environment else {}
    container["resources"] = _resources(workload, rng)
    if configured:
        mounts = [{"name": "config", "mountPath": f"/etc/{app}"}, {"name": "scratch", "mountPath": "/tmp"}]
        container["volumeMounts"] = mounts
    container |= _probes(rng) if serves else {}
    return container | _LASTS | (_LOCKED_DOWN if restricted else {})


def _environment(workload: Workload, rng: random.Random) -> list[Json]:
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "NODE_NAME": "spec.nodeName"}
    settings = rng.sample(_SETTINGS, rng.randint(0, 4))
    found: list[Json] = [{"name": name, "value": value} for name, value in settings]
    for name, path in list(fields.items())[: rng.randint(0, 1)]:
        found.append({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
    if rng.random() < 0.2:
        secret = {"name": f"{workload.name}-credentials", "key": "password"}
        found.append({"name": "PASSWORD", "valueFrom": {"secretKeyRef": secret}})
    return found


def _resources(workload: Workload, rng: random.Random) -> Json:
    requests = {"cpu": quantity_of_cpu(workload.cpu_millis), "memory": quantity_of_memory(workload.memory_mebibytes)}
    limits: dict[str, str] = {}
    if rng.random() < 0.7:
        limits["memory"] = requests["memory"]
        if rng.random() < 0.3:
            limits["cpu"] = requests["cpu"]
    if workload.gpus:
        requests[GPU] = limits[GPU] = str(workload.gpus)
    return ({"limits": dict(sorted(limits.items()))} if limits else {}) | {"requests": dict(sorted(requests.items()))}


def _probes(rng: random.Random) -> Json:
    ready = {"httpGet": {"path": "/readyz", "port": "http", "scheme": "HTTP"}}
    alive = {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}}
    chance = rng.random()
    probes: Json = {"livenessProbe": _probe(alive, initial=10)} if chance < 0.65 else {}
    probes |= {"readinessProbe": _probe(ready)} if chance < 0.85 else {}
    return probes | ({"startupProbe": _probe(alive, failures=30)} if chance < 0.1 else {})


def _probe(handler: Json, initial: int = 0, failures: int = 3) -> Json:
    times: Json = {"initialDelaySeconds": initial} if initial else {}
    times |= {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": failures}
    return handler | times


def _side(name: str, fields: Json, restricted: bool) -> Json:
    container: Json = {"name": name, "image": f"{_REGISTRY}/platform/{name}:v1.9.2"}
    return container | fields | _LASTS | (_LOCKED_DOWN if restricted else {})


def _side_resources() -> Json:
    cpu, memory = quantity_of_cpu(SIDE_CPU_MILLIS), quantity_of_memory(SIDE_MEMORY_MEBIBYTES)
    return {"requests": {"cpu": cpu, "memory": memory}}
