"""Making way: placeholders leave for a burst of pods before the scheduler has to preempt them one by one."""
