"""What agents of the throttler report, and what becomes of it."""
