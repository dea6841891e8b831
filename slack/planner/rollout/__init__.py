"""From what should be there to what is written now: shrinking, victims, backoff."""
