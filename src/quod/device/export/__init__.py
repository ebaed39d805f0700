"""Recordings for a device that is somewhere else, such as in a browser."""
