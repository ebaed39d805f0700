"""Searches for circuits that accept more than one witness."""
