"""Making way: which placeholders leave for a burst of pods, before the scheduler has to preempt one by one. Pure."""
