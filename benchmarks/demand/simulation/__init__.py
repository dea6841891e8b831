"""The old scheduler and pools that follow their queues in one modelled world: what messages wait for. Pure."""
