"""A worker in a separate process: the protocol between the processes, and both ends."""
