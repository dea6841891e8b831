"""From what watches and the load watcher say to columns and demands: what scores are computed from. Pure."""
