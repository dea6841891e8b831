"""`demand` and its subcommands: container pools that follow their queues, looked at, decided, played and run."""
