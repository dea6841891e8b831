"""`load`: pods in one's own cluster, for a while, and what came of it. Writes one Deployment and takes it away."""
