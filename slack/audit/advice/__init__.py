"""What to do about a finding: rules, the figures that they rest on, and patches that are ready to use."""
