"""`migrate`: other people's manifests that keep room in, SlackPolicies out. Reads and prints."""
