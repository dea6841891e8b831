"""Which nodes belong to a policy, what fits them, and how much room is to be kept there."""
