"""Warm nodes, carried out: pods that pull images on nodes with placeholders, watched and deleted."""
