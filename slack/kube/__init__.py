"""Talking to an API server: the one package that imports the official client.

Layers, lowest first: `errors` and `paths` (values), `connection` (requests), `retry` (what is tried again),
`breaker` (what is not sent for a while),
`watch` (bytes to events), then what the operator uses: `sink` and `reflector`, `apply`, `lease`, `events`.
Nothing is imported here, so that a caller who needs an exception does not load the official client.
"""
