"""Reports from one process of ours to another: bodies, requests with a token, and their pace."""
