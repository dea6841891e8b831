"""A real control plane on this machine, or on kind, for tests, and what runs on it.

`cluster` starts and stops it and says who may do what; `autoscalers`, `monitoring` and `node` add the real Karpenter,
Prometheus and kubelet; `product` runs what is tested as its users do. The modules beside this one serve all of them.

Usage:

    from e2e.harness.cluster.control_plane import ControlPlane
    with ControlPlane() as cluster:
        print(cluster.kubeconfig, cluster.api.items("/api/v1/nodes"))
"""
