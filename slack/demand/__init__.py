"""The rules of demand: how many containers each queue gets, which end, who is refused, what slack holds. Pure."""
