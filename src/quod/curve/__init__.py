"""Curves: parameters, groups, point arithmetic, encodings, pairings."""
