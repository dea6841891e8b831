"""The CPU auditor's core: what cgroups, cAdvisor and Prometheus say of CPU quotas, what it means, and what to do.

`sources` read samples; `findings` make windows of two samples and compute the audit's two numbers, the share of
throttled periods and the share of time lost (`findings.throttling`); `kernel` knows the quota's bugs; `advice` says
what to do; `api` is what agents, controllers and users read and write; `enforcement` decides what may be changed.
"""
