"""What Prometheus and Grafana are to make of the operator's metrics: rules, alerts and a dashboard, as data."""
