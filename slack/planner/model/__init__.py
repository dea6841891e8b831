"""What the packages of the planner pass to one another: shapes, plans, vectors, and the cache of earlier plans."""
