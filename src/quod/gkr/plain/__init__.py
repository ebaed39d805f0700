"""The parts of the plain verifier: gates, and both reductions of a layer."""
