"""What others read and write: CpuAuditPolicy, CpuAuditReport, and the messages of agents."""
