"""Suites on kind with real kubelets, where the operator is a container: `make e2e BACKEND=kind` runs them first."""
