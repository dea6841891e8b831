"""Message brokers behind the protocols of `slack.demand.broker`: a module a broker, and the one that opens by URL.

Nothing else of ours imports a broker's library; each is an extra, loaded when a URL asks for it.
"""
