"""The rules for Prometheus and the dashboard for Grafana, as the files that `resource-slack monitoring` prints."""
