"""Exit codes of commands and processes. 0 is good, and an end that was asked for."""

OUR_MISTAKE = 1
NOT_WRITTEN = 1
"""The output cannot be written."""
BAD_INPUT = 2
"""What the user can mend, no cluster, or a server that is none. A process that finds no API server at all ends with 1:
that may pass, and it is started again."""
INFEASIBLE = 3
"""An answer that is bad news."""
