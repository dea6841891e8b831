"""Burst eviction: choose placeholders to delete for a burst of pods, before the scheduler preempts them. Pure."""
