"""The terminal: output, progress and standard streams."""
