"""What scores nodes: a module an algorithm, the fall-back on allocations, the mathematics they share. Pure."""
