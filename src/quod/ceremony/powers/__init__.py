"""Powers of tau, the first phase of a ceremony."""
