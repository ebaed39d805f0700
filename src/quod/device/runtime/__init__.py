"""Streams, recordings, events, timelines and threads."""
