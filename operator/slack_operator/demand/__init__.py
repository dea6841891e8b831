"""The demand companion's processes: the controller that decides, the proxy in every container, and the brokers."""
