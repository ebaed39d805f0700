"""PTX, for NVIDIA GPUs, and an interpreter of it."""
