"""`throttler` and its subcommands: who starts and who waits, policies and pods checked, scenarios played."""
