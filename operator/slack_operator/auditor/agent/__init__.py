"""The agent: samples every cgroup of its node, and reports."""
