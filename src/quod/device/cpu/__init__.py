"""The CPU as a device: compiled code, placed in memory and run by worker threads."""
