"""What policies with an objective learn: fed by the loop, asked before each plan, kept in an object of ours."""
