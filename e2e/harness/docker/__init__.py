"""Docker for the suites on kind: the one that runs here, or one of the harness's own for as long as it is wanted."""
