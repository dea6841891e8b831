"""The gate: a sidecar that asks the agent of its node for its pod's starts. The standard library and nothing else."""
