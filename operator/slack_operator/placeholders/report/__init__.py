"""What the operator tells people: status, Events, log lines and metrics of policies."""
