"""Benchmarks of fields, MSM, NTT and sumcheck."""
