"""Which placeholders are removed: the reasons, the limits of shapes and the order of leaving, each one list."""
