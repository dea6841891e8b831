"""`load-watcher`: the process, and what it knows of each node. `show` asks a watcher and prints; it reads only."""
