"""The agent of a node: it sees the gated pods of its node, and tells their gates who may start."""
