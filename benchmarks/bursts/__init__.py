"""Bursts on a real control plane: into free room, into placeholders that are preempted, and where slack makes way."""
