"""The command lines of the control plane's programs, with why each flag is there.

Everything listens on 127.0.0.1, with TLS and client certificates: other users of this machine get no way in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.cluster.certificates import Pair
from e2e.harness.ports import LOOPBACK

SERVICE_RANGE = "10.0.0.0/16"


@dataclass(frozen=True)
class Ports:
    """Where each program listens."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True)
class Keys:
    """The certificates of one run."""

    authority: Path
    server: Pair  # serves etcd, the API server, the controller manager and the scheduler
    etcd_client: Pair
    service_accounts: Pair
    front_authority: Path
    """Of those who may say whom they speak for: the API server, to what it passes requests on to."""
    front: Pair


def etcd(binary: Path, data: Path, ports: Ports, keys: Keys) -> list[str]:
    """Return etcd's command line; data is lost with the run, so it need not reach the disk."""
    client, peer = f"https://{LOOPBACK}:{ports.etcd}", f"https://{LOOPBACK}:{ports.etcd_peer}"
    return [
        str(binary),
        "--name=e2e",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=e2e={peer}",
        f"--trusted-ca-file={keys.authority}",
        f"--cert-file={keys.server.certificate}",
        f"--key-file={keys.server.key}",
        "--client-cert-auth",
        f"--peer-trusted-ca-file={keys.authority}",
        f"--peer-cert-file={keys.server.certificate}",
        f"--peer-key-file={keys.server.key}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver(
    binary: Path, ports: Ports, keys: Keys, audit_policy: Path, audit_log: Path, extra: Sequence[str]
) -> list[str]:
    """Return the API server's command line."""
    return [
        str(binary),
        f"--etcd-servers=https://{LOOPBACK}:{ports.etcd}",
        f"--etcd-cafile={keys.authority}",
        f"--etcd-certfile={keys.etcd_client.certificate}",
        f"--etcd-keyfile={keys.etcd_client.key}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.apiserver}",
        "--endpoint-reconciler-type=none",  # the `kubernetes` service may not point at loopback
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--client-ca-file={keys.authority}",
        f"--tls-cert-file={keys.server.certificate}",
        f"--tls-private-key-file={keys.server.key}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys.service_accounts.certificate}",
        f"--service-account-signing-key-file={keys.service_accounts.key}",
        *_aggregation(keys),
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=4096",  # MiB; the default starts a new file at 100
        "--allow-privileged=true",
        "--profiling=false",
        *extra,
    ]


FRONT_PROXY = "front-proxy"


def _aggregation(keys: Keys) -> list[str]:
    """Return the flags by which an APIService's own server is asked, and knows for whom (requestheader)."""
    return [
        f"--requestheader-client-ca-file={keys.front_authority}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={keys.front.certificate}",
        f"--proxy-client-key-file={keys.front.key}",
    ]


def controller_manager(
    binary: Path, kubeconfig: Path, ports: Ports, keys: Keys, run_folder: Path, extra: Sequence[str]
) -> list[str]:
    """Return the controller manager's command line."""
    return [
        str(binary),
        *_component(kubeconfig, ports.controller_manager, keys),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={keys.authority}",
        f"--service-account-private-key-file={keys.service_accounts.key}",
        f"--flex-volume-plugin-dir={run_folder / 'flex'}",  # its default is a folder that only root may make
        "--kube-api-qps=100",  # the default of 20 costs 5 s at the start
        "--kube-api-burst=200",
        *extra,
    ]


def scheduler(
    binary: Path, kubeconfig: Path, ports: Ports, keys: Keys, configuration: Path, gates: Mapping[str, bool]
) -> list[str]:
    """Return the scheduler's command line."""
    chosen = ",".join(f"{name}={str(value).lower()}" for name, value in sorted(gates.items()))
    return [
        str(binary),
        *_component(kubeconfig, ports.scheduler, keys)[1:],  # --config names the kubeconfig, and both is an error
        f"--config={configuration}",
        *([f"--feature-gates={chosen}"] if chosen else []),
    ]


def _component(kubeconfig: Path, port: int, keys: Keys) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={keys.server.certificate}",
        f"--tls-private-key-file={keys.server.key}",
    ]
