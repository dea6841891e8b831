"""Warm nodes: which images are pulled where, before the pods that need them arrive. Pure: no I/O, no clock."""
