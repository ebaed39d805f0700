"""Commands of both phases of a ceremony."""
