"""The controller: reports in; CpuAuditReports, Events and changes of limits out."""
