"""What the operator writes besides reports: ReplicaSets, placeholders, what releases nodes, and freed preemptors."""
