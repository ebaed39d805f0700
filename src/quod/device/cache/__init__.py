"""Compiled code on disk, and its keys."""
