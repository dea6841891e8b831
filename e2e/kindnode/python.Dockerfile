# What the operator's image is built on where python's published one cannot be pulled: BASE of the Dockerfile.
ARG BASE
FROM ${BASE}
# The operator's Dockerfile installs with pip outside of a virtual environment, as python's own image allows.
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
       ca-certificates python-is-python3 python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED
COPY ca-certificates.crt /usr/local/share/trusted.crt
RUN if [ -s /usr/local/share/trusted.crt ]; then \
      cp /usr/local/share/trusted.crt /etc/ssl/certs/ca-certificates.crt \
      && printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' > /etc/pip.conf; \
    fi
