"""What an enforcing policy may change next, what it must leave alone, and what stands changed."""
