"""The CPU auditor's processes in a cluster: an agent on every node, and the controller that they report to."""
