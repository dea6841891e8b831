"""What `resource-slack operator` can be told."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slack.capacity_buffers.api import Serve
from slack.capacity_buffers.ceiling import EXAMPLE, BufferCeiling, parse_ceiling
from slack.capacity_buffers.scalable_kinds import SCALABLE_EXAMPLE, ScalableKind, parse_scalable_kinds
from slack.cluster.classes import TaintKeys
from slack.cluster.hold import UNBOUND_SCHEDULER, Hold, ReleaseNodes
from slack.cluster.node_prices import NodePrices
from slack.process.settings import NoValue, setting
from slack.process.shared_settings import LeadingSettings, leader_elect_setting, lease_name_setting, namespace_setting
from slack.process.slack_values import fields, prices, rate, taint_keys
from slack.process.values import (
    address,
    choice,
    duration,
    host_port,
    is_loopback,
    load_watcher_url,
    metrics_url,
    number,
    path,
    switch,
    text,
)

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
WEEK_SECONDS = 7 * 86_400.0
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def user(value: object) -> int | None:
    """Parse the number of a user that is not root, or `image` for none."""
    if value == "image":
        return None
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**31:
        raise ValueError(f"should be the number of a user that is not root, such as 65535, or `image`, not {value!r}")
    return number


def namespaced_name(value: object) -> str:
    """Parse NAMESPACE/NAME of an object, or a text that is empty: none."""
    namespace, _, name = value.partition("/") if isinstance(value, str) else ("-", "", "")
    if value != "" and not (_LABEL.fullmatch(namespace) and _OBJECT.fullmatch(name)):
        raise ValueError(f"should be NAMESPACE/NAME such as kube-system/cluster-autoscaler-status, not {value!r}")
    return str(value)


def ceiling(value: object) -> BufferCeiling | None:
    """Parse what all CapacityBuffers together may hold; None where nothing is bounded."""
    return parse_ceiling(value) or None


def scalable_kinds(value: object) -> Mapping[tuple[str, str], ScalableKind] | None:
    """Parse kinds that CapacityBuffers may name: a list, or JSON; None where there are none."""
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, list | tuple):
        raise ValueError(f"expected JSON such as {SCALABLE_EXAMPLE}, not {value!r}")
    return parse_scalable_kinds(found) or None


@dataclass(frozen=True, kw_only=True)
class OperatorSettings(LeadingSettings):
    """Everything `resource-slack operator` can be told."""

    section: ClassVar[str | NoValue] = "operator"
    files: ClassVar[Mapping[str, Path]] = {"namespace": NAMESPACE_FILE}

    extra_capacity_min_rate: float = setting(
        0.1,
        rate,
        "Extra capacity as a share of the requests of real pods, for policies that name no rate.",
        metavar="RATE",
        chart="operator.extraCapacityMinRate",
    )
    built_in_policy: bool = setting(
        False,
        switch,
        "While there is no SlackPolicy, keep a built-in one: all nodes, --extra-capacity-min-rate. Without this, no "
        "policy means no slack.",
        chart="operator.builtInPolicy",
    )
    prices: NodePrices | None = setting(
        None,
        prices,
        "What nodes cost per hour, as JSON: by labels, by instance type, or by cpu and memory; with them status, page "
        "and metrics say what slack costs.",
        metavar="JSON",
        chart="prices",
    )
    open_cost: str | None = setting(
        None,
        metrics_url,
        "Address of OpenCost's metrics. What nodes cost is read there each hour, if --prices does not say it.",
        metavar="URL",
        chart="openCost.url",
    )
    namespace: str = namespace_setting(
        "Namespace of the placeholders and of the lease; the pod's own where it runs in one."
    )
    image: str = setting(
        "registry.k8s.io/pause:3.10",
        text,
        "Image of the placeholders; it only has to wait.",
        metavar="IMAGE",
        chart="operator.placeholderImage",
    )
    placeholder_user: int | None = setting(
        65535,
        user,
        "Number of the user that placeholders run as; `image` names none: for clusters that give users out, such as "
        "OpenShift.",
        metavar="USER",
        chart="operator.placeholderUser",
    )
    placeholders: Mapping[str, object] | None = setting(
        None,
        fields('{"labels": {"team": "platform"}}'),
        "What all placeholders have where admission policies demand it, as JSON with the fields of a policy's "
        "spec.placeholders: labels, annotations, limits, imagePullSecrets, securityContext. What a policy names is "
        "added, and wins.",
        metavar="JSON",
        chart="operator.placeholders",
    )
    interval: float = setting(
        10.0,
        duration(1, WEEK_SECONDS),
        "How often the cluster is planned for even when nothing is seen to change.",
        metavar="DURATION",
        chart="operator.interval",
    )
    leader_elect: bool = leader_elect_setting("Act only while holding the lease; needed with more than one replica.")
    lease_name: str = lease_name_setting("resource-slack")
    web: bool = setting(
        False, switch, "Serve the web page: read-only, what the operator sees and plans.", chart="operator.web.enabled"
    )
    web_listen: str = setting(
        "127.0.0.1:8081",
        address,
        "Address of the page; `kubectl port-forward` reaches a loopback address too.",
        metavar="HOST:PORT",
        chart="operator.web.listen",
    )
    web_token_file: Path | None = setting(
        None,
        path,
        "File with the token that the page asks for; needed when --web-listen is no loopback address.",
        metavar="FILE",
        chart="operator.web.tokenSecret.name",
    )
    web_load_watcher: str | None = setting(
        None,
        load_watcher_url,
        "A load watcher whose figures the page shows next to the requests; none: it shows no load.",
        metavar="URL",
        chart="operator.web.loadWatcher",
    )
    web_load_watcher_ca_file: Path | None = setting(
        None,
        path,
        "Certificates that sign the load watcher's; the system's when absent.",
        metavar="FILE",
        chart="operator.web.loadWatcherCaSecret",
    )
    hold: Hold = setting(
        Hold.AUTO,
        choice(Hold),
        "How placeholders hold capacity, for policies that do not say: Auto, Bound or Unbound.",
        metavar="FORM",
        chart="operator.hold",
    )
    bound: bool = setting(
        True,
        switch,
        "Allow bound placeholders. Without them the operator frees no capacity and rescues no pods, and needs fewer "
        "rights; a "
        "policy that asks for Bound is refused.",
        chart="operator.bound.enabled",
    )
    unbound_scheduler: str = setting(
        UNBOUND_SCHEDULER,
        text,
        "The schedulerName of unbound placeholders; no scheduler may have it.",
        metavar="NAME",
        chart="operator.unboundScheduler",
    )
    cluster_autoscaler_status: str = setting(
        "kube-system/cluster-autoscaler-status",
        namespaced_name,
        "The ConfigMap in which Cluster Autoscaler writes its status; by it --hold=Auto recognises that autoscaler. "
        "Empty: it is not read.",
        metavar="NAMESPACE/NAME",
        chart="operator.clusterAutoscalerStatus",
    )
    release_nodes: ReleaseNodes = setting(
        ReleaseNodes.LABEL,
        choice(ReleaseNodes),
        "How nodes are released that unbound placeholders must let go: drifted, expiring, or no longer needed. Label: "
        "by a label on the node. MarkerPod: by a pod on it, on Karpenter only. Off: not at all. A change from or to "
        "MarkerPod replaces all unbound placeholders.",
        metavar="WAY",
        chart="operator.releaseNodes",
    )
    soft_taint: bool = setting(
        False,
        switch,
        "Taint the fewest nodes that hold all unbound placeholders with resource-slack.io/slack:PreferNoSchedule, so "
        "that the scheduler puts real pods on other nodes first. Needs the rights to get and patch nodes. A change "
        "replaces all unbound placeholders.",
        chart="operator.softTaint.enabled",
    )
    transient_taints: TaintKeys | None = setting(
        None,
        taint_keys,
        "Keys of further taints that go once a node is up, with commas: KEY, BEGIN* for all that begin so, !KEY for "
        "one that lasts though its name is known. Pods on such nodes stay in the base, and no message says to "
        "tolerate the taint.",
        metavar="KEYS",
        chart="operator.transientTaints",
    )
    rescue_stuck_preemptors: bool = setting(
        True,
        switch,
        "Free real pods that the scheduler leaves hanging after preemption, by clearing status.nominatedNodeName.",
        chart="operator.rescueStuckPreemptors",
    )
    make_way: bool = setting(
        True,
        switch,
        "Delete placeholders for a burst of real pods, before the scheduler has to preempt them one by one.",
        chart="operator.makeWay",
    )
    image_pulls: bool = setting(
        True,
        switch,
        "Watch the Events with which kubelets report pulls of images, for the part that pulls have of the time to "
        "Ready.",
        chart="operator.imagePulls",
    )

    warm: bool = setting(
        False,
        switch,
        "Pull images on nodes with placeholders for policies with spec.warm, by short-lived pods in the operator's "
        "namespace.",
        chart="operator.warm.enabled",
    )
    warm_nodes_at_once: int = setting(
        4,
        number(1, 100),
        "On how many nodes images are pulled at the same time.",
        metavar="NUMBER",
        chart="operator.warm.nodesAtOnce",
    )
    warm_bytes_per_second: int = setting(
        200_000_000,
        number(1_000_000, 100_000_000_000),
        "How many bytes of images are pulled a second, by their sizes, on all nodes together.",
        metavar="BYTES",
        chart="operator.warm.bytesPerSecond",
    )
    capacity_buffers: Serve = setting(
        Serve.OFF,
        choice(Serve),
        "Which CapacityBuffers (autoscaling.x-k8s.io) are served: Off; Own, those of strategy "
        "buffer.resource-slack.io/placeholder-pods; Unserved, also upstream's where nobody else serves them.",
        metavar="WHICH",
        chart="capacityBuffers.serve",
    )
    capacity_buffers_ceiling: BufferCeiling | None = setting(
        None,
        ceiling,
        f"What all CapacityBuffers together may hold, as JSON: {EXAMPLE}. namespaceShare bounds each namespace; "
        "perHour needs --prices.",
        metavar="JSON",
        chart="capacityBuffers.ceiling",
    )
    capacity_buffers_scalable_kinds: Mapping[tuple[str, str], ScalableKind] | None = setting(
        None,
        scalable_kinds,
        "Further kinds that a CapacityBuffer's scalableRef may name, as JSON with apiGroup, version, kind and "
        "resource; they are read by /scale.",
        metavar="JSON",
        chart="capacityBuffers.scalableKinds",
    )

    def problems(self) -> Iterator[str]:
        """Yield that the page needs a token, that a price needs prices, and that bound placeholders are allowed."""
        if (
            self.capacity_buffers_ceiling is not None
            and self.capacity_buffers_ceiling.per_hour is not None
            and not (self.prices or self.open_cost)
        ):
            yield (
                "--capacity-buffers-ceiling: perHour is a price, so it needs --prices or --open-cost; or bound cpu and "
                "memory"
            )
        if self.web and self.web_token_file is None and not is_loopback(host_port(self.web_listen)[0]):
            yield (
                f"--web-token-file: needed, as --web-listen {self.web_listen} is no loopback address: name a file with "
                "the token that the page is to ask for, or listen on 127.0.0.1 and use kubectl port-forward"
            )
        if self.hold is Hold.BOUND and not self.bound:
            yield "--hold: Bound needs bound placeholders, and --no-bound switches them off; write Auto or Unbound"

    @property
    def frees_capacity(self) -> bool:
        """Whether placeholders are deleted for bursts."""
        return self.make_way and self.bound

    @property
    def cluster_autoscaler_status_map(self) -> tuple[str, str] | None:
        """Namespace and name of Cluster Autoscaler's ConfigMap; None where it is not to be read."""
        namespace, _, name = self.cluster_autoscaler_status.partition("/")
        return (namespace, name) if name else None
