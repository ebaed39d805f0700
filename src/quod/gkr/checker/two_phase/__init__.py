"""The checks of proofs of the two-phase reduction."""
