"""Measurement: repetition, peers, results files, gates, rooflines and reports."""
