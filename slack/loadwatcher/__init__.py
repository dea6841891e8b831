"""The load watcher's core: windows of nodes' real use, judged, rolled up, and the payload that scorers read. Pure."""
