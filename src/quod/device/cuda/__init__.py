"""NVIDIA GPUs through the driver's interface."""
