"""Recordings of real clusters: taken, written, read, and turned into scenarios."""
