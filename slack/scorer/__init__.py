"""Load-aware scores: how good a node is for a pod, by what is really used there. Pure, but for `asgi`."""
