"""A node image for kind, made from package registries alone, for machines that can pull none.

Debian's own packages (debootstrap) are its base; Kubernetes' programs and kind's are built through the Go module proxy
like the other tools of the suites; what kind's published image has beside them is read from kind's module when the
image is built. `python -m e2e.harness.build kind-node` builds it.
"""
