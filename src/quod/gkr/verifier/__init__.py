"""The reference verifier, in plain integers: gates, and both reductions of a layer."""
