"""The operator: observe, plan, act. The only package that puts all packages together, and the only one that knows
kopf."""
