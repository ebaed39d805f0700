"""The program that computes a circuit's witness, as data."""
