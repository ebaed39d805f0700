"""Benchmarks of tensor kernels and verified inference."""
