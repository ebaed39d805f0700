"""Pairings: the Miller loop and the final exponentiation."""
