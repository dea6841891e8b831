"""What is proven on a real cluster."""
