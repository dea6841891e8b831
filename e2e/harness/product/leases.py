"""The lease that a leader of ours holds, as others see it."""

from e2e.harness.api import Api

NAMESPACE = "resource-slack"


def renewed_at(api: Api, name: str) -> str:
    """Return when a lease was renewed last, in the words of who holds it; '' where there is none."""
    found = api.find(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}")
    return str(found["spec"].get("renewTime", "")) if found else ""
