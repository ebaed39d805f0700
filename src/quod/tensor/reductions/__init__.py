"""Reductions along an axis."""
