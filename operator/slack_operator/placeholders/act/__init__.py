"""What the operator writes besides reports: ReplicaSets, placeholders, releases of nodes, and freed preemptors."""
