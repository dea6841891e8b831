"""The web page of the operator: read-only, off by default. It shows what the loop saw and decides nothing."""
