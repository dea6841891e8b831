"""Runs of a scenario: one, many seeds, variants side by side, curves, tunings, and their pictures."""
