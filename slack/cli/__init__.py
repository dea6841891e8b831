"""The commands: one module each, gathered by `commands`. Here packages are put together, nothing is decided.

JSON goes to stdout, words for people to stderr; exit code 0 is good, 2 bad input or no cluster, 3 an infeasible plan,
130 Ctrl-C.
Heavy imports stand inside the functions that need them, so that `--help` answers at once.
"""
