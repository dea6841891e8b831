"""The same cluster on kind: in a user's Docker with kind's published image, else in one of the harness's own.

The harness's own Docker pulls nothing: its node image is made here (`e2e.kindnode`). kwok is a process beside it.

What differs from the local backend and is evened out here: kind's own node is a real one (it is tainted, so that tests'
pods stay off it), and kind's DaemonSets would take room on kwok's nodes (they are kept to the real one). Flags of the
control plane are changed in its static pods' manifests, which kubelet follows: that works whatever format of
configuration kind's release has.
"""

import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import urllib3
import yaml

from e2e.harness import build
from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.access import Access, Identities
from e2e.harness.cluster.certificates import Authority
from e2e.harness.docker import engine
from e2e.harness.docker.engine import Engine
from e2e.harness.errors import UnavailableError
from e2e.harness.objects import wait_until
from e2e.harness.processes import Program
from e2e.kindnode import node_image

_MANIFESTS = "/etc/kubernetes/manifests"
_PARKED = "/etc/kubernetes/kube-apiserver.parked.yaml"
_AUDIT = "/var/log/e2e-audit"
_GATES: Mapping[str, bool] = {"SchedulerAsyncPreemption": False}  # why: see controlplane.SYNCHRONOUS_PREEMPTION


class Kind:
    """One kind cluster, deleted at `stop()`."""

    name = "kind"

    def __init__(
        self,
        run_folder: Path,
        image: str = "",
        configuration: Json | None = None,
        cluster: str = "",
        docker: Engine | None = None,
    ) -> None:
        """Nothing runs yet.

        Args:
            run_folder: where logs and kubeconfig files go.
            image: the nodes'; by default what KIND_IMAGE says (best with its digest), else what is made here for the
                harness's own Docker, and the published one that a user's kind takes by itself.
            configuration: kind's own, of the cluster; by default one node that is no test's.
            cluster: its name, by default one of this process.
            docker: where; by default this machine's, or one for as long as the cluster is there.
        """
        self.run_folder = run_folder
        self._image = image or os.environ.get("KIND_IMAGE") or ""
        self._configuration = configuration
        self._cluster = cluster or f"resource-slack-{os.getpid()}"
        self._docker = docker
        self._kept = ExitStack()
        self._created = False
        self._kind_kubeconfig = run_folder / "kind.kubeconfig"  # kind's own would be the user's ~/.kube/config
        self._node = f"{self._cluster}-control-plane"
        self._identities: Identities
        self._kwok: Program | None = None

    def start(self) -> Self:
        """Create the cluster, set it up as the suites expect, and start kwok beside it."""
        self.run_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self.docker: Engine = self._docker or self._kept.enter_context(engine.of_this_machine())
            self.kind = _kind(self.docker)
            binary = build.ensure(["kwok"])["kwok"]
            image = self._image or (node_image.ensure(self.docker) if self.docker.own else "")
            began = time.monotonic()
            self._create(image)
            self.seconds_to_create = time.monotonic() - began
            self._adopt()
            self._turn_on_audit()
            self.restart_scheduler()
            self._keep_real_node_apart()
            user = self.user("kwok", ["system:masters"])
            self._kwok = kwok.program(binary, user.kubeconfig, self.run_folder).start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End kwok and delete the cluster, and end Docker if it was started for it."""
        with self._kept:  # whatever fails here
            if self._kwok is not None:
                self._kwok.stop()
                self._kwok = None
            if self._created:
                kubeconfig = f"--kubeconfig={self._kind_kubeconfig}"
                self.run_kind("delete", "cluster", f"--name={self._cluster}", kubeconfig, seconds=120)
                self._created = False

    def run_kind(self, *arguments: str, seconds: float = 300.0) -> str:
        """Run a kind command against the Docker of this cluster."""
        return engine.run([self.kind, *arguments], seconds, self.docker.environment)

    @property
    def name_of_cluster(self) -> str:
        """Before the names of its nodes."""
        return self._cluster

    @property
    def api(self) -> Api:
        """The cluster-admin's door to the API."""
        return self._identities.admin.api

    @property
    def kubeconfig(self) -> Path:
        """The cluster-admin's kubeconfig file."""
        return self._identities.admin.kubeconfig

    def user(self, name: str, groups: Sequence[str] = ()) -> Access:
        """Return a user named by a client certificate; it may do nothing until a role is granted to it."""
        return self._identities.user(name, groups)

    def service_account(self, namespace: str, name: str) -> Access:
        """Return a service account's identity (made if need be); it may do nothing until a role is granted to it."""
        return self._identities.service_account(namespace, name)

    def stop_apiserver(self, crash: bool = False) -> None:
        """Take the API server's manifest away, which kubelet follows in seconds (`crash` makes no difference here)."""
        self._in_node("mv", f"{_MANIFESTS}/kube-apiserver.yaml", _PARKED)
        wait_until(lambda: not self._ready(), 90, "the API server to be gone")

    def start_apiserver(self) -> None:
        """Put the API server's manifest back and wait until it is ready."""
        self._in_node("mv", _PARKED, f"{_MANIFESTS}/kube-apiserver.yaml")
        wait_until(self._ready, 120, "the API server to be back")

    def restart_apiserver(self, crash: bool = False, down_seconds: float = 0.0) -> None:
        """Stop the API server, leave it down for a while, start it."""
        self.stop_apiserver(crash)
        time.sleep(down_seconds)
        self.start_apiserver()

    def restart_scheduler(self, gates: Mapping[str, bool] | None = None, configuration: Json | None = None) -> None:
        """Start the scheduler with other feature gates; another configuration needs the local backend."""
        if configuration is not None:
            raise UnavailableError("a scheduler configuration of its own needs the local backend (BACKEND=local)")
        chosen = ",".join(f"{name}={str(on).lower()}" for name, on in (_GATES if gates is None else gates).items())
        flags = {"feature-gates": chosen} if chosen else {}
        before = self._scheduler_container()
        self._edit_static_pod("kube-scheduler", lambda pod: _set_flags(pod, {"feature-gates": None, **flags}))
        wait_until(lambda: self._scheduler_container() not in {before, ""}, 90, "the scheduler's new container to run")

    def restart_missing(self) -> None:
        """Bring back what a test has stopped and not started again."""
        if "kube-apiserver.yaml" not in self._in_node("ls", _MANIFESTS):
            self.start_apiserver()

    def begin_kwok_anew(self) -> None:
        """See `kwok.begin_anew`; between two tests."""
        if self._kwok is not None:
            kwok.begin_anew(self.api, self._kwok)

    def audit_mark(self) -> int:
        """Return a place in the audit log."""
        return int(self._in_node("stat", "-c", "%s", f"{_AUDIT}/audit.jsonl"))

    def audit_entries(
        self, user: str | None = None, verbs: Collection[str] | None = None, since: int = 0
    ) -> list[audit_log.AuditEntry]:
        """Return what was asked of the API server since a mark; the log is copied out of the node for it."""
        copy = self.run_folder / "audit.jsonl"
        copy.write_text(self._in_node("cat", f"{_AUDIT}/audit.jsonl"), encoding="utf-8")
        return audit_log.entries(copy, user, verbs, since)

    def _create(self, image: str) -> None:
        command = ["create", "cluster", f"--name={self._cluster}", "--wait=300s"]
        if image:
            command.append(f"--image={image}")
        if self._configuration is not None:
            path = self.run_folder / "kind.yaml"
            path.write_text(yaml.safe_dump(self._configuration), encoding="utf-8")
            command.append(f"--config={path}")
        self._created = True
        self.run_kind(*command, f"--kubeconfig={self._kind_kubeconfig}", seconds=900)

    def _adopt(self) -> None:
        """Sign with kind's own authority: its signer for requests grants no `system:masters`."""
        server = yaml.safe_load(self._kind_kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        certificate = self._in_node("cat", "/etc/kubernetes/pki/ca.crt").encode()
        key = self._in_node("cat", "/etc/kubernetes/pki/ca.key").encode()
        authority = Authority.load(self.run_folder / "certificates", certificate, key)
        self._identities = Identities(server, authority, self.run_folder / "kubeconfig")

    def _turn_on_audit(self) -> None:
        self._in_node("mkdir", "-p", _AUDIT)
        self._into_node(f"{_AUDIT}/policy.yaml", yaml.safe_dump(audit_log.POLICY))
        self._edit_static_pod("kube-apiserver", _add_audit)
        wait_until(lambda: self._in_node("ls", _AUDIT).count("audit.jsonl"), 120, "the audit log", every=1.0)
        wait_until(self._ready, 120, "the API server with its audit log")

    def _keep_real_node_apart(self) -> None:
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        self.api.patch(f"/api/v1/nodes/{self._node}", {"spec": {"taints": [taint]}})
        if self._configuration is not None:
            return  # its workers are real, and need what DaemonSets bring
        selector = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": self._node}}}}}
        for entry in self.api.items("/apis/apps/v1/namespaces/kube-system/daemonsets"):
            self.api.patch(f"/apis/apps/v1/namespaces/kube-system/daemonsets/{entry['metadata']['name']}", selector)

    def _scheduler_container(self) -> str:
        return self._in_node("crictl", "ps", "--quiet", "--state=Running", "--name=kube-scheduler").strip()

    def _edit_static_pod(self, name: str, edit: Callable[[Json], None]) -> None:
        path = f"{_MANIFESTS}/{name}.yaml"
        manifest = yaml.safe_load(self._in_node("cat", path))
        edit(manifest)
        # kubelet starts a pod anew only when its manifest differs, also when the flags are the same as before.
        manifest["metadata"].setdefault("annotations", {})["e2e.resource-slack/edited"] = str(time.time_ns())
        # Written beside and moved: kubelet must not see half a file. A dot keeps it from reading that one.
        self._into_node(f"{_MANIFESTS}/.{name}.new", yaml.safe_dump(manifest, sort_keys=False))
        self._in_node("mv", f"{_MANIFESTS}/.{name}.new", path)

    def _ready(self) -> bool:
        try:
            self.api.get("/readyz")
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return True

    def _in_node(self, *command: str) -> str:
        return self.docker.run("exec", self._node, *command)

    def _into_node(self, path: str, text: str) -> None:
        self.docker.run("exec", "--interactive", self._node, "sh", "-c", f"cat > {path}", stdin=text.encode())


def _set_flags(pod: Json, flags: Mapping[str, str | None]) -> None:
    """Set flags of a static pod's one container; None takes a flag away."""
    command: list[str] = pod["spec"]["containers"][0]["command"]
    kept = [word for word in command if word.removeprefix("--").partition("=")[0] not in flags]
    added = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    pod["spec"]["containers"][0]["command"] = kept + added


def _add_audit(pod: Json) -> None:
    policy, log = f"{_AUDIT}/policy.yaml", f"{_AUDIT}/audit.jsonl"
    _set_flags(pod, {"audit-policy-file": policy, "audit-log-path": log, "audit-log-maxsize": "4096"})
    volume: Json = {"name": "e2e-audit", "hostPath": {"path": _AUDIT, "type": "DirectoryOrCreate"}}
    pod["spec"].setdefault("volumes", []).append(volume)
    mount = {"name": "e2e-audit", "mountPath": _AUDIT}
    pod["spec"]["containers"][0].setdefault("volumeMounts", []).append(mount)


def _kind(docker: Engine) -> str:
    """Return the kind to use: the user's with the user's Docker, else the one that goes with the image made here."""
    found = None if docker.own else shutil.which("kind")
    return found or str(build.ensure(["kind"])["kind"])
