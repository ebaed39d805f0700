"""Workers as actors of Ray, which places them on the machines of a cluster."""
