"""Placeholders as Kubernetes objects: written, read back, compared; and what autoscalers say of them."""
