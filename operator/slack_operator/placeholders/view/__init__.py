"""What the operator sees: watches feed one view under one lock, and the loop copies it. Writes nothing."""
