"""Attention of few queries with many keys."""
