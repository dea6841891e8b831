"""resource-slack: room for the next pods of an autoscaled cluster, kept by placeholders. See docs/ and README.md."""
