"""Commands of the service: the server, its keys, and its clients."""
