"""The real Prometheus and kube-state-metrics, and cases for promtool."""
