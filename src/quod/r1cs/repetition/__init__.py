"""Repetition: parts of a circuit that are traced once and placed many times."""
