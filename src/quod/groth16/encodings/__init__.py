"""Keys, proofs and verifiers in the formats of other programs."""
