"""Sums of points in GPU kernels: the forms of bases and sums."""
