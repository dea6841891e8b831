"""The CFS quota's kernel bugs: which releases have which fix, and a live probe."""
