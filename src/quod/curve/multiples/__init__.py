"""Scalar multiplication of single points inside kernels."""
