"""The CFS auditor's core: what cgroups, cAdvisor and Prometheus say of CPU quotas, what it means, and what to do."""
