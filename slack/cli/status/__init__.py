"""`status`: is my slack there? Reads, prints the verdict, and ends with its exit code."""
