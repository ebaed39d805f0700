"""Embedding tables and rotary positions."""
