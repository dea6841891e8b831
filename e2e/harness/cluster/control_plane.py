"""A control plane of stock programs on this machine: etcd, API server, controller manager, scheduler, kwok.

Invariants: RBAC is on; every listener is on 127.0.0.1; no root, no Docker; `stop()` ends exactly what `start()` began,
and so does the end of this process, however it comes. One object, one run folder, one cluster. Linux only (/proc).
"""

import os
import signal
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3
import yaml

from e2e.harness import build
from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster import audit_log, command_lines, kwok
from e2e.harness.cluster.access import Access, Identities
from e2e.harness.cluster.certificates import Authority, Pair, service_account_keys
from e2e.harness.errors import HarnessError
from e2e.harness.ports import LOOPBACK, free_port, is_listening
from e2e.harness.processes import Program, stop_recorded

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
# The stock scheduler's asynchronous preemption can leave a preempting pod pending for good (seen in 1.36.3), which
# would make every suite that preempts a gamble. The suite that is about this trap turns it on.
SYNCHRONOUS_PREEMPTION: Mapping[str, bool] = {"SchedulerAsyncPreemption": False}


@dataclass(frozen=True)
class Options:
    """What may differ between control planes; every default is the stock program's but where the field says so."""

    scheduler_gates: Mapping[str, bool] = field(default_factory=lambda: dict(SYNCHRONOUS_PREEMPTION))
    """Feature gates of the scheduler; asynchronous preemption is off unless a test turns it on."""
    scheduler_configuration: Json = field(default_factory=dict)
    """Merged over the KubeSchedulerConfiguration at its top level (profiles, extenders, clientConnection)."""
    scheduler_binary: Path | None = None
    """A kube-scheduler of another version; the one that is built where none is given."""
    apiserver_flags: Sequence[str] = ()
    controller_manager_flags: Sequence[str] = ()
    audit_rules: Sequence[Json] = ()
    """Rules that come before those of `audit_log.POLICY`."""


class ControlPlane:
    """One cluster.

    Usage:

        with ControlPlane() as cluster:
            cluster.api.create(kwok.node("node-1"))
            operator = cluster.service_account("slack-system", "resource-slack")   # operator.kubeconfig
    """

    name = "local"

    def __init__(self, run_folder: Path | None = None, options: Options | None = None) -> None:
        self.run_folder = run_folder or Path(tempfile.mkdtemp(prefix="resource-slack-e2e-"))
        self.options = options or Options()
        self.audit_log = self.run_folder / "audit.jsonl"
        self.start_seconds: dict[str, float] = {}
        self._programs: dict[str, Program] = {}
        self._identities: Identities
        self._keys: command_lines.Keys
        self._ports: command_lines.Ports
        self._binaries: Mapping[str, Path]

    def start(self) -> Self:
        """Build what is missing, start everything, and return when pods can be scheduled."""
        binaries = dict(build.ensure(PROGRAMS))
        if self.options.scheduler_binary is not None:
            binaries["kube-scheduler"] = self.options.scheduler_binary
        began = time.monotonic()
        try:
            self._start(binaries, began)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End everything: clients before servers, for the API server waits for foreign watches when it may."""
        for name in ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            if name in self._programs:
                self._programs[name].stop(seconds=3.0)

    @property
    def api(self) -> Api:
        """The cluster-admin's door to the API."""
        return self._identities.admin.api

    @property
    def kubeconfig(self) -> Path:
        """The cluster-admin's kubeconfig file."""
        return self._identities.admin.kubeconfig

    def program(self, name: str) -> Program:
        """Return one of the running programs, for its log, id or end."""
        return self._programs[name]

    def user(self, name: str, groups: Sequence[str] = ()) -> Access:
        """Return a user named by a client certificate; it may do nothing until a role is granted to it."""
        return self._identities.user(name, groups)

    def service_account(self, namespace: str, name: str) -> Access:
        """Return a service account's identity (made if need be); it may do nothing until a role is granted to it."""
        return self._identities.service_account(namespace, name)

    @property
    def keys(self) -> command_lines.Keys:
        """The certificates of this run."""
        return self._keys

    def server_certificate(self, name: str, hosts: Sequence[str]) -> Pair:
        """Sign the certificate of a server that belongs to this cluster."""
        return self._identities.authority.issue(name, hosts=hosts)

    def stop_apiserver(self, crash: bool = False) -> None:
        """Take the API server away; its clients' open watches break. `crash` ends it without a word (SIGKILL)."""
        self._programs["kube-apiserver"].stop(seconds=0.0 if crash else 2.0)

    def start_apiserver(self) -> None:
        """Bring the API server back, on the same port with the same data, and wait until it is ready."""
        self._programs["kube-apiserver"].start().wait_until_ready(self._apiserver_ready, seconds=60)

    def restart_apiserver(self, crash: bool = False, down_seconds: float = 0.0) -> None:
        """Stop the API server, leave it down for a while, start it."""
        self.stop_apiserver(crash)
        time.sleep(down_seconds)
        self.start_apiserver()

    def restart_scheduler(
        self,
        gates: Mapping[str, bool] | None = None,
        configuration: Json | None = None,
        binary: Path | None = None,
    ) -> None:
        """Start the scheduler anew with other gates, configuration or program; without arguments, as at first."""
        self._programs["kube-scheduler"].stop()
        self._programs["kube-scheduler"] = self._scheduler(
            binary or self._binaries["kube-scheduler"],
            self.options.scheduler_gates if gates is None else gates,
            self.options.scheduler_configuration if configuration is None else configuration,
        ).start()
        self._wait_healthy("kube-scheduler", self._ports.scheduler)

    @contextmanager
    def stands_still(self, program: str) -> Iterator[None]:
        """Let a program do nothing meanwhile; it keeps what it knows, as after a long pause of its machine."""
        pid = self._programs[program].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def restart_missing(self) -> None:
        """Bring back what a test has stopped (or what has crashed) and not started again."""
        if not self._programs["kube-apiserver"].running:
            self.start_apiserver()
        for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
            if not self._programs[name].running:
                self._programs[name].start()

    def begin_kwok_anew(self) -> None:
        """See `kwok.begin_anew`; between two tests."""
        kwok.begin_anew(self.api, self._programs["kwok"])

    def audit_mark(self) -> int:
        """Return a place in the audit log: what comes later is read with `audit_entries(since=mark)`."""
        return self.audit_log.stat().st_size

    def audit_entries(
        self, user: str | None = None, verbs: Collection[str] | None = None, since: int = 0
    ) -> list[audit_log.AuditEntry]:
        """What was asked of the API server, by one user, with certain verbs (`audit_log.WRITES`), since a mark."""
        return audit_log.entries(self.audit_log, user, verbs, since)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, binaries: Mapping[str, Path], began: float) -> None:
        self.run_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.run_folder.chmod(0o700)  # it holds the cluster's keys
        stop_recorded(self.run_folder)
        self._binaries = binaries
        self._ports = command_lines.Ports(*(free_port() for _ in range(5)))
        self._keys = self._make_certificates()
        self.start_seconds["certificates"] = time.monotonic() - began
        self._programs["etcd"] = Program(
            "etcd",
            command_lines.etcd(binaries["etcd"], self.run_folder / "etcd", self._ports, self._keys),
            self.run_folder,
        ).start()
        self._programs["etcd"].wait_until_ready(lambda: is_listening(self._ports.etcd), seconds=20)
        self.start_seconds["etcd"] = time.monotonic() - began
        policy = self.run_folder / "audit-policy.yaml"
        rules = {**audit_log.POLICY, "rules": [*self.options.audit_rules, *audit_log.POLICY["rules"]]}
        policy.write_text(yaml.safe_dump(rules), encoding="utf-8")
        self._programs["kube-apiserver"] = Program(
            "kube-apiserver",
            command_lines.apiserver(
                binaries["kube-apiserver"],
                self._ports,
                self._keys,
                policy,
                self.audit_log,
                self.options.apiserver_flags,
            ),
            self.run_folder,
        )
        self.start_apiserver()
        self.start_seconds["apiserver"] = time.monotonic() - began
        self._start_controllers(binaries)
        self.start_seconds["all"] = time.monotonic() - began

    def _start_controllers(self, binaries: Mapping[str, Path]) -> None:
        manager = self.user("system:kube-controller-manager").kubeconfig
        flags = self.options.controller_manager_flags
        self._programs["kube-controller-manager"] = Program(
            "kube-controller-manager",
            command_lines.controller_manager(
                binaries["kube-controller-manager"], manager, self._ports, self._keys, self.run_folder, flags
            ),
            self.run_folder,
        ).start()
        self._programs["kube-scheduler"] = self._scheduler(
            binaries["kube-scheduler"], self.options.scheduler_gates, self.options.scheduler_configuration
        ).start()
        kwok_user = self.user("kwok", ["system:masters"])
        self._programs["kwok"] = kwok.program(binaries["kwok"], kwok_user.kubeconfig, self.run_folder).start()
        self._wait_healthy("kube-controller-manager", self._ports.controller_manager)
        self._wait_healthy("kube-scheduler", self._ports.scheduler)
        # Pods are refused in a namespace until the controllers have made its service account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._programs["kube-controller-manager"].wait_until_ready(
            lambda: self.api.find(account) is not None, seconds=30
        )

    def _scheduler(self, binary: Path, gates: Mapping[str, bool], configuration: Json) -> Program:
        kubeconfig = self.user("system:kube-scheduler").kubeconfig
        settings: Json = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **configuration,
        }
        settings["clientConnection"] = {"kubeconfig": str(kubeconfig), **configuration.get("clientConnection", {})}
        path = self.run_folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = command_lines.scheduler(binary, kubeconfig, self._ports, self._keys, path, gates)
        return Program("kube-scheduler", command, self.run_folder)

    def _make_certificates(self) -> command_lines.Keys:
        folder = self.run_folder / "certificates"
        authority = Authority.create(folder)
        server = f"https://{LOOPBACK}:{self._ports.apiserver}"
        front = Authority.create(folder / "front-proxy")  # another one: whom it signs for may claim to be anybody
        self._identities = Identities(server, authority, self.run_folder / "kubeconfig")
        return command_lines.Keys(
            authority=authority.certificate_path,
            server=authority.issue("server", hosts=[LOOPBACK, "localhost", "kubernetes.default.svc", "10.0.0.1"]),
            etcd_client=authority.issue("etcd-client"),
            service_accounts=service_account_keys(folder),
            front_authority=front.certificate_path,
            front=front.issue(command_lines.FRONT_PROXY),
        )

    def _apiserver_ready(self) -> bool:
        try:
            self.api.get("/readyz")
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return True

    def _wait_healthy(self, name: str, port: int) -> None:
        probe = Api(f"https://{LOOPBACK}:{port}", self._keys.authority, timeout_seconds=5.0)

        def healthy() -> bool:
            try:
                probe.get("/healthz")
            except (ApiError, urllib3.exceptions.HTTPError):
                return False
            return True

        self._programs[name].wait_until_ready(healthy, seconds=30)


def keep_running() -> None:
    """Start a cluster for a person and keep it until Ctrl-C: `python -m e2e.harness.cluster.control_plane`."""
    with ControlPlane() as cluster:
        print(f"ready after {cluster.start_seconds['all']:.1f} s; Ctrl-C ends it")
        print(f"export KUBECONFIG={cluster.kubeconfig}")
        print(f"logs and audit log: {cluster.run_folder}", flush=True)
        try:
            while True:
                time.sleep(1)
                gone = [name for name in PROGRAMS if not cluster.program(name).running]
                if gone:
                    raise HarnessError(f"ended by itself: {', '.join(gone)}")
        except KeyboardInterrupt:
            print("ending")


if __name__ == "__main__":
    keep_running()
