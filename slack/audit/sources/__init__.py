"""Where samples and names come from: cgroup files, cAdvisor, Prometheus, lists of pods. All give the same values."""
