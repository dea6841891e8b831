"""The startup throttler's processes: the gate in each gated pod, and the agent of its node that it asks."""
