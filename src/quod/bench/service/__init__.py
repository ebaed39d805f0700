"""Benchmarks of the proving service: its queue, its calls, its workers."""
