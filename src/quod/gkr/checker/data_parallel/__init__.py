"""The checks of proofs of the data-parallel reduction."""
