"""Who may do what: kubeconfig files for users (certificates) and service accounts (tokens), and roles bound to them.

The operator under test runs with exactly the role of its manifest, so a missing rule fails a test as it would fail in a
user's cluster. The harness itself is cluster-admin and shows as such in the audit log.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.api import Api, Json
from e2e.harness.cluster.certificates import Authority
from e2e.harness.errors import HarnessError

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Access:
    """One identity: the user name that the audit log shows, its kubeconfig file, and its door to the API."""

    user: str
    kubeconfig: Path
    api: Api


def write_kubeconfig(path: Path, server: str, authority: Path, user: Mapping[str, Any]) -> Path:
    """Write a self-contained kubeconfig that only its owner may read; `user` is the file's `user` section."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority-data": _data(authority)}}],
        "users": [{"name": "e2e", "user": dict(user)}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


class Identities:
    """The identities of one cluster: users that its authority signs for, and its service accounts.

    Usage:

        identities = Identities(server, authority, run_folder / "kubeconfig")
        identities.user("admin", ["system:masters"]).api.items("/api/v1/nodes")
    """

    def __init__(self, server: str, authority: Authority, folder: Path) -> None:
        self.server = server
        self.authority = authority
        self._folder = folder
        self._users: dict[str, Access] = {}

    @property
    def admin(self) -> Access:
        """The cluster-admin that the harness itself acts as."""
        return self.user("admin", ["system:masters"])

    def user(self, name: str, groups: Sequence[str] = ()) -> Access:
        """Return a user named by a client certificate; it may do nothing until a role is granted to it."""
        if name not in self._users:
            pair = self.authority.issue(name, organizations=groups)
            path = self._folder / name.replace(":", "_")
            ca = self.authority.certificate_path
            section = {"client-certificate-data": _data(pair.certificate), "client-key-data": _data(pair.key)}
            write_kubeconfig(path, self.server, ca, section)
            self._users[name] = Access(name, path, Api(self.server, ca, pair.certificate, pair.key))
        return self._users[name]

    def service_account(self, namespace: str, name: str) -> Access:
        """Return a service account's identity (made if need be); it may do nothing until a role is granted to it."""
        return service_account_access(self.admin.api, self._folder / f"{namespace}_{name}", namespace, name)


def service_account_access(admin: Api, path: Path, namespace: str, name: str, seconds: int = 86400) -> Access:
    """Create a ServiceAccount (if need be) and give its identity, with a token that is good for `seconds`."""
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    answer = admin.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
    token = answer["status"]["token"]
    write_kubeconfig(path, admin.server, admin.authority, {"token": token})
    user = f"system:serviceaccount:{namespace}:{name}"
    return Access(user, path, Api(admin.server, admin.authority, token=token))


def grant(admin: Api, access: Access, role: str, namespace: str = "", kind: str = "ClusterRole") -> None:
    """Bind a ClusterRole or Role that exists to an identity: in one namespace, or everywhere when none is given."""
    binding_kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    if kind == "Role" and not namespace:
        raise HarnessError(f"Role {role} can only be bound in a namespace")
    metadata = {"name": f"e2e-{role}-{access.user}".replace(":", "-").replace("/", "-").lower()}
    admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": binding_kind,
            "metadata": metadata | ({"namespace": namespace} if namespace else {}),
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [_subject(access.user)],
        }
    )


def grant_manifests(admin: Api, access: Access, manifests: Sequence[Json], namespace: str = "default") -> None:
    """Apply the ClusterRoles and Roles among `manifests` (those of a chart, say) and bind them to an identity.

    Bindings and service accounts among them are left out: they name the chart's own subject.
    """
    roles = [manifest for manifest in manifests if manifest.get("kind") in {"ClusterRole", "Role"}]
    if not roles:
        raise HarnessError("no ClusterRole or Role among the manifests")
    for role in roles:
        where = role["metadata"].get("namespace", namespace) if role["kind"] == "Role" else ""
        if where:
            role = {**role, "metadata": {**role["metadata"], "namespace": where}}
        admin.apply(role)
        grant(admin, access, role["metadata"]["name"], where, role["kind"])


def read_manifests(path: Path) -> list[Json]:
    """Read the documents of one YAML file, or of every `*.yaml` in a folder."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]


def _subject(user: str) -> Json:
    if user.startswith("system:serviceaccount:"):
        _, _, namespace, name = user.split(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": RBAC, "kind": "User", "name": user}


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
