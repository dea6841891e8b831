"""The operator's parts: the view of the cluster, the loop, what it writes and what it tells."""
