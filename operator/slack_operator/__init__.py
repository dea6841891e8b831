"""The operator: observe, plan, act. The only package that puts all rooms together, and the only one that knows kopf."""
