"""Transposition and permutation of axes."""
