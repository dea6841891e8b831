"""A local server that answers as an API server does, with a generated cluster behind it."""
