"""What one audit found as a whole, and what a command tells of it: findings with advice, kernels, an explanation."""
