"""Which placeholders are removed: the reasons, as one ordered list, and the order among those that may leave."""
