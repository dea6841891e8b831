"""Real messages, real processes, a real broker: the old scheduler's rules beside ours, measured in one run each."""
