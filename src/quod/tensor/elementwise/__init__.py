"""Elementwise functions and their gradients."""
