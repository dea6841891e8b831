"""Pure decisions: Snapshot and Policy in, Plan out. No I/O, no clock, no randomness."""
