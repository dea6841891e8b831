"""`audit` and its subcommands: counters and names are fetched, findings printed, drawn, written; and its processes."""
