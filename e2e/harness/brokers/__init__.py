"""Real message brokers on loopback, each ready in some tens of milliseconds; a suite skips where one cannot be had."""
