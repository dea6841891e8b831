"""What other people's manifests that keep room mean in SlackPolicies: read, judged, and put into words. Pure."""
