"""A pod as its manifest has it: the shape of what is read there, and the gate's container as it is written there."""
