"""The interpreter, which defines what a kernel means."""
