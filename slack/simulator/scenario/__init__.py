"""A scenario as a typed value: the cluster, what runs on it and when, and which slack is kept."""
