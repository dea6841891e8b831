"""The modelled autoscalers: Cluster Autoscaler and Karpenter, up and down."""
