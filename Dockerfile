# Nothing but an engine, a Python image and a Python package registry is needed (docs/image.md).
# Any image with Python 3.11 or newer and glibc: name the mirror of your own with --build-arg BASE=...
# By its digest, for all platforms at once: a tag may name another image tomorrow. How to take a newer one: docs/image.md
ARG BASE=python:3.13-slim@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY requirements/build.txt requirements/run.txt requirements/
# What runs is installed without pip beside it: nothing in the image can install anything.
RUN python -m venv --without-pip /opt/resource-slack
RUN pip --python /opt/resource-slack/bin/python install --require-hashes -r requirements/run.txt
RUN pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY slack slack
COPY operator operator
RUN pip wheel --no-deps --no-build-isolation --wheel-dir dist .
RUN pip --python /opt/resource-slack/bin/python install --no-deps dist/*.whl

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="resource-slack" \
      org.opencontainers.image.description="Spare capacity on autoscaled Kubernetes clusters, so that pods start without waiting for a node" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/resource-slack /opt/resource-slack
ENV PATH=/opt/resource-slack/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Numeric, so that a cluster can tell without the image's user list that it is not root.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["resource-slack"]
CMD ["--help"]
