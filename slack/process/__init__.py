"""The shared ways of every process: how it logs, reads its settings and stops. Written once, for all of them."""
