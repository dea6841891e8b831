"""A real node on this machine: kubelet, containerd, cgroups, threads."""
