"""How a cluster is created and deleted at each cloud, as command lines. Nothing is run here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Command = Sequence[str]


@dataclass(frozen=True, slots=True)
class Request:
    """What the person asks for."""

    name: str
    region: str
    nodes: int
    most_nodes: int


@dataclass(frozen=True, slots=True)
class Provider:
    """One cloud: its tools, its commands, and what the chart needs there."""

    title: str
    autoscaler: str
    tools: Sequence[str]
    """Programs that have to be on the PATH, in addition to kubectl and helm."""
    values: Sequence[str] = ()
    """Flags of `helm install`."""

    def create(self, request: Request) -> list[Command]:
        """Return the commands that create a cluster and point kubectl at it."""
        return _CREATE[self.title](request)

    def delete(self, request: Request) -> list[Command]:
        """Return the commands that delete it again."""
        return _DELETE[self.title](request)


def _eks_create(r: Request) -> list[Command]:
    bounds = [f"--nodes={r.nodes}", f"--nodes-min={r.nodes}", f"--nodes-max={r.most_nodes}"]
    return [
        [
            *("eksctl", "create", "cluster", f"--name={r.name}", f"--region={r.region}", "--managed"),
            *("--node-type=m6i.large", "--asg-access", *bounds),
        ],
        ["helm", "repo", "add", "autoscaler", "https://kubernetes.github.io/autoscaler"],
        [
            *("helm", "install", "cluster-autoscaler", "autoscaler/cluster-autoscaler", "--namespace=kube-system"),
            *(f"--set=autoDiscovery.clusterName={r.name},awsRegion={r.region}", "--wait"),
        ],
    ]


def _gke_create(r: Request) -> list[Command]:
    bounds = [f"--num-nodes={r.nodes}", f"--min-nodes={r.nodes}", f"--max-nodes={r.most_nodes}"]
    return [
        [
            *("gcloud", "container", "clusters", "create", r.name, f"--zone={r.region}"),
            *("--machine-type=e2-standard-2", "--enable-autoscaling", *bounds),
        ],
        ["gcloud", "container", "clusters", "get-credentials", r.name, f"--zone={r.region}"],
    ]


def _aks_create(r: Request) -> list[Command]:
    bounds = [f"--node-count={r.nodes}", f"--min-count={r.nodes}", f"--max-count={r.most_nodes}"]
    return [
        ["az", "group", "create", f"--name={r.name}", f"--location={r.region}"],
        [
            *("az", "aks", "create", f"--resource-group={r.name}", f"--name={r.name}", "--generate-ssh-keys"),
            *("--node-vm-size=Standard_D2s_v5", "--enable-cluster-autoscaler", *bounds),
        ],
        ["az", "aks", "get-credentials", f"--resource-group={r.name}", f"--name={r.name}"],
    ]


_CREATE: Mapping[str, Callable[[Request], list[Command]]] = {
    "EKS": _eks_create,
    "GKE Standard": _gke_create,
    "AKS": _aks_create,
    "this cluster": lambda _: [],
}
_DELETE: Mapping[str, Callable[[Request], list[Command]]] = {
    "EKS": lambda r: [["eksctl", "delete", "cluster", f"--name={r.name}", f"--region={r.region}", "--wait"]],
    "GKE Standard": lambda r: [
        ["gcloud", "container", "clusters", "delete", r.name, f"--zone={r.region}", "--quiet"],
    ],
    "AKS": lambda r: [["az", "group", "delete", f"--name={r.name}", "--yes"]],
    "this cluster": lambda _: [],
}
PROVIDERS: Mapping[str, Provider] = {
    "eks": Provider("EKS", "Cluster Autoscaler", ("eksctl", "aws")),
    "gke": Provider(
        "GKE Standard", "its cluster autoscaler", ("gcloud",), ("--set=operator.quotaForPriorityClass=true",)
    ),
    "aks": Provider("AKS", "its cluster autoscaler", ("az",)),
    "current": Provider("this cluster", "its autoscaler", ()),
}
"""`current` is whatever kubectl points at: a cluster that is there already, which is neither created nor deleted."""
REGIONS: Mapping[str, str] = {"eks": "eu-central-1", "gke": "europe-west3-a", "aks": "westeurope", "current": ""}
