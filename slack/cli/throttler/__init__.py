"""`throttler` and its subcommands: policies and pods checked, scenarios of start-ups played."""
