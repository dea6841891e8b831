"""Bursts on a real control plane into free capacity, bound placeholders, making way, unbound placeholders, buffers."""
