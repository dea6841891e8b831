"""Generators of files that are committed: reference pages, Prometheus rules, the Grafana dashboard. Not installed."""
