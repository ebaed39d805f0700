"""Files of keys, inputs and proofs, and what is told about them."""
