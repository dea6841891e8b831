"""The tests against real Kubernetes programs: how to build and run them (`harness`), and what they prove (`suites`)."""
