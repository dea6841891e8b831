"""The real autoscalers: Karpenter and the Cluster Autoscaler, on nodes that kwok plays."""
