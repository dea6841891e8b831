"""What every process of ours does: policies, election, health, serving, callers, metrics, start and stop."""
