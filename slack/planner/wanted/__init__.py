"""Which placeholders a policy should have: demand, cover, fill and mirrors, zone by zone."""
