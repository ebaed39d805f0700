"""Proving keys that are made in a GPU's memory, and proofs with them, for very large circuits."""
