"""The pod of a container: the pool's template, labelled as ours and owned by the pool, with the proxy beside it.

The proxy alone gets at the broker's credentials, and runs without rights. The pod is marked safe to evict: a bare pod
that an autoscaler may not move would keep its node for ever, and who is moved finishes what it runs or gives it back.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, Final

from slack.cluster.duration import fine_text
from slack.cluster.labels import (
    ANNOTATION_RETIRED_SUBJECTS,
    ANNOTATION_SAFE_TO_EVICT,
    ANNOTATION_SUBJECT,
    API_VERSION,
    HOSTNAME,
    LABEL_CREATION,
    LABEL_MANAGED_BY,
    LABEL_POOL,
    LABEL_POOL_REVISION,
    MANAGED_BY,
)
from slack.demand.model import Creation
from slack.demand.policy import POOL_KIND, ActivationPool, PoolMode, ProxyMode
from slack.demand.template import PROXY, PROXY_REQUESTS

Json = dict[str, Any]
PROXY_PORT: Final = 8087
"""Of the proxy's health and drain; the kubelet asks there."""
_CREDENTIALS: Final = "/var/run/secrets/resource-slack-demand"
_MARGIN_SECONDS: Final = 5
_MOST_GRACE_SECONDS: Final = 3600
_NOBODY: Final = 65532


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """What every proxy of a cluster is told."""

    image: str
    broker_url: str


def pod_manifest(pool: ActivationPool, creation: Creation, options: ProxyOptions) -> Json:
    """Return the pod of a creation."""
    template = copy.deepcopy(dict(pool.spec.template.document))
    metadata, spec = template.get("metadata") or {}, template["spec"]
    ours = {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_POOL: pool.name,
        LABEL_POOL_REVISION: creation.revision,
        LABEL_CREATION: creation.id,
    }
    if pool.spec.proxy.mode is ProxyMode.SIDECAR:
        _add_proxy(spec, pool, creation, options)
    # Of mode perMessage the proxy ends after its message, and must stay so: the controller takes the pod away then.
    spec["restartPolicy"] = "Never" if pool.spec.mode is PoolMode.PER_MESSAGE else "Always"
    spec.setdefault("terminationGracePeriodSeconds", _grace_seconds(pool))
    spec.setdefault(
        "topologySpreadConstraints",
        [
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {LABEL_POOL: pool.name}},
            }
        ],
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": creation.id,
            "namespace": pool.namespace,
            "labels": {**(metadata.get("labels") or {}), **ours},
            "annotations": {
                ANNOTATION_SAFE_TO_EVICT: "true",
                **(metadata.get("annotations") or {}),
                ANNOTATION_SUBJECT: creation.subject,
                **({ANNOTATION_RETIRED_SUBJECTS: ",".join(creation.also)} if creation.also else {}),
            },
            "ownerReferences": [
                {"apiVersion": API_VERSION, "kind": POOL_KIND, "name": pool.name, "uid": pool.uid, "controller": True}
            ],
        },
        "spec": spec,
    }


def _grace_seconds(pool: ActivationPool) -> int:
    """Return how long a run may take to its end when the pod is deleted."""
    longest = pool.spec.timing.longest_run or pool.spec.queue.ack_wait
    return min(math.ceil(longest.total_seconds()) + _MARGIN_SECONDS, _MOST_GRACE_SECONDS)


def _whole(seconds: float) -> str:
    return fine_text(math.ceil(seconds))


def _add_proxy(spec: Json, pool: ActivationPool, creation: Creation, options: ProxyOptions) -> None:
    proxy, queue = pool.spec.proxy, pool.spec.queue
    arguments = [
        "demand",
        "proxy",
        f"--broker-url={options.broker_url}",
        f"--queues={','.join((creation.subject, *creation.also))}",
        f"--target=http://127.0.0.1:{proxy.port}{proxy.path}",
        f"--slots={proxy.max_concurrency}",
        f"--ack-wait={_whole(queue.ack_wait.total_seconds())}",
        f"--max-deliver={queue.max_deliver}",
        f"--container={creation.id}",
        f"--listen=0.0.0.0:{PROXY_PORT}",
        "--idle-timeout=0s",  # who ends is the controller's to say
        "--log-format=json",
    ]
    if pool.spec.timing.longest_run is not None:
        arguments.append(f"--longest-run={_whole(pool.spec.timing.longest_run.total_seconds())}")
    if pool.spec.mode is PoolMode.PER_MESSAGE:
        arguments.append("--messages=1")
    container: Json = {
        "name": PROXY,
        "image": options.image,
        "args": arguments,
        "ports": [{"name": "demand-proxy", "containerPort": PROXY_PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": PROXY_PORT}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": PROXY_PORT}, "periodSeconds": 20},
        "resources": {"requests": dict(PROXY_REQUESTS), "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            # the image's own user, but where the pod's would take its place
            **({"runAsUser": _NOBODY} if (spec.get("securityContext") or {}).get("runAsUser") == 0 else {}),
        },
    }
    if proxy.credentials_secret is not None:
        arguments.append(f"--broker-credentials-file={_CREDENTIALS}/credentials")
        container["volumeMounts"] = [{"name": PROXY, "mountPath": _CREDENTIALS, "readOnly": True}]
        secret = {"secretName": proxy.credentials_secret, "defaultMode": 0o444}
        spec.setdefault("volumes", []).append({"name": PROXY, "secret": secret})
    spec["containers"].append(container)
