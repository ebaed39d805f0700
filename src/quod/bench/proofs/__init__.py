"""Benchmarks of proofs, verification, ceremonies and whole processes."""
