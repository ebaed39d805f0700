"""Files of keys, inputs and proofs, and their descriptions."""
