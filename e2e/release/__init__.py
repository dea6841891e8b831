"""Installing from what `make release` has built; `make release-check` runs it. No part of `make e2e`."""
