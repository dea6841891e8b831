"""The scorer and the load watcher use what the chart grants each of them, and ask for nothing else; so do their pods.

Both run as the service accounts of the chart would, with the roles that Helm renders; the audit log tells.
"""

import urllib.request
from pathlib import Path

import pytest

from e2e.harness.api import ApiError, Json
from e2e.harness.cluster import access, kwok, rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.objects import make_namespace, wait_until
from e2e.harness.ports import LOOPBACK, free_port, is_listening
from e2e.harness.processes import Program
from e2e.harness.product.helm import NAMESPACE, Helm
from e2e.harness.product.scorer import PROGRAM

ALLOWED_UNUSED = {
    ("pods", "list"): "the first list, where the API server cannot stream it in the watch",
    ("nodes", "list"): "the same",
    ("coordination.k8s.io/leases", "get"): "the second scheduler's, which shares the scorer's account",
    ("coordination.k8s.io/leases", "update"): "the same",
}


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    helm = Helm(tmp_path_factory.mktemp("helm"))
    return helm.template("--set=operator.enabled=false,scorer.enabled=true,loadWatcher.enabled=true")


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("resource-slack-scorer", ("scorer", "serve", "--extender-listen")),
        ("resource-slack-load", ("load-watcher", "serve", "--interval=1s", "--sample-interval=1s", "--api-listen")),
    ],
)
def test_a_companion_has_the_rights_that_it_uses(
    backend: Backend, manifests: list[Json], tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    with cleaned(backend.api):
        make_namespace(backend.api, NAMESPACE)
        backend.api.create(kwok.node("companion"))
        roles = [item for item in manifests if item["metadata"]["name"] == name and item["kind"].endswith("Role")]
        identity = backend.service_account(NAMESPACE, name)
        access.grant_manifests(backend.api, identity, roles, NAMESPACE)
        mark = backend.audit_mark()
        port, health = free_port(), free_port()
        words = [PROGRAM, *command[:-1], f"{command[-1]}={LOOPBACK}:{port}", f"--listen={LOOPBACK}:{health}"]
        program = Program(name, [*words, f"--kubeconfig={identity.kubeconfig}"], tmp_path)
        rights = rbac.granted(roles)

        def unused() -> set[str]:
            seen = rbac.used(rights, backend.audit_entries(user=identity.user, since=mark))
            return {str(right) for right in rights - seen if (right.resource, right.verb) not in ALLOWED_UNUSED}

        program.start()
        try:
            wait_until(lambda: is_listening(port), 60, f"{name} to serve")
            if "load" in name:  # a watch is logged when it ends, a list at once
                wait_until(lambda: "list metrics.k8s.io/nodes everywhere" not in unused(), 60, "nodes' use to be asked")
            else:
                wait_until(lambda: is_ready(health), 60, f"{name} to have seen the cluster")
        finally:
            program.stop()
        wait_until(lambda: not unused(), 60, f"the rights of {name} to be used: {unused()}")
        asked = backend.audit_entries(user=identity.user, since=mark)
        assert {str(right) for right in rbac.refused(rights, asked)} == set()


@pytest.mark.core
def test_their_pods_are_admitted_where_pod_security_is_restricted_but_for_a_folder_of_the_node(
    backend: Backend, manifests: list[Json], tmp_path: Path
) -> None:
    place = "companions-restricted"
    with cleaned(backend.api):
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": place, "labels": labels}
        backend.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for item in manifests:
            if item["kind"] == "ServiceAccount":
                backend.api.apply({**item, "metadata": {"name": item["metadata"]["name"], "namespace": place}})
        kept = Helm(tmp_path).template(
            "--set=operator.enabled=false,loadWatcher.enabled=true,loadWatcher.persistence=/var/lib/load"
        )
        refused = {}
        for what, rendered in (("without", manifests), ("with a folder", kept)):
            for item in rendered:
                if item["kind"] != "Deployment":
                    continue
                name = item["metadata"]["name"]
                spec = item["spec"]["template"]["spec"]
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": place}, "spec": spec}
                try:
                    backend.api.request("POST", f"/api/v1/namespaces/{place}/pods?dryRun=All", pod)
                except ApiError as error:
                    refused[what, name] = str(error)
        assert list(refused) == [("with a folder", "resource-slack-load")], refused
        assert "hostPath" in refused["with a folder", "resource-slack-load"]
