"""CapacityBuffers served: probed, planned, held by unbound placeholders, and told of in their status."""
