"""What two samples of a cgroup mean: windows, the two numbers, how bad that is, and whose quota did it."""
