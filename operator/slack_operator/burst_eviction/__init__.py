"""Burst eviction: placeholders are deleted for a burst of pods, before the scheduler preempts them one by one."""
