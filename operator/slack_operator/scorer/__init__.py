"""The scorer: an extender that tells the stock kube-scheduler how loaded nodes are. Reads, and writes nothing."""
