"""The proxy in every container of a pool: it pulls a message a free slot, has it run, and acks it after the run.

Light: it is in every pod. Neither kopf, pydantic, numpy nor a web framework is loaded, and of the brokers' libraries
one. What it does with messages is in `slots`; `runner` says how a run is asked for, and three modules ask.
"""
