"""The load watcher's process: fetches nodes' real use from a provider, keeps it, and serves it to scorers."""
