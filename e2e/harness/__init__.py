"""A real control plane on this machine, or on kind, for tests.

Usage:

    from e2e.harness.controlplane import ControlPlane
    with ControlPlane() as cluster:
        print(cluster.kubeconfig, cluster.api.items("/api/v1/nodes"))
"""
