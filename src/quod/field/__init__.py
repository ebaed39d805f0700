"""Prime fields and their extensions: moduli, limb strategies, towers, host arrays."""
