"""The kernels of the integer program."""
