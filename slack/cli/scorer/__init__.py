"""`scorer` and its subcommands: the extender, what it answered and why, and the scheduler's configuration for it."""
