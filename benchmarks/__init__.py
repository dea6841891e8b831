"""What the docs' figures come from: each benchmark measures both sides in one run and prints the ratio."""
