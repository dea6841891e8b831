"""A load in one's own cluster: how many pods when, as which object, and what came of it. Pure: no clock, no I/O."""
