"""CapacityBuffers served with unbound placeholders: sizes, bounds, conditions, and who else serves them. Pure."""
