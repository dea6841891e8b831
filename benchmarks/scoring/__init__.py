"""How quickly nodes are scored: `python -m benchmarks.scoring`."""
