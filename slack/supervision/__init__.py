"""Whether each thread, task and pool of a process still works: stamps that the work itself writes."""
