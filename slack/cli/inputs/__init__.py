"""Where commands take their input from: files, stdin, an API server, a Prometheus. Only reads."""
