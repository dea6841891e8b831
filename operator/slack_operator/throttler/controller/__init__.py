"""The controller: the webhook that gives pods their gates, and what is written about the cluster while it leads."""
